"""How often a mirror does something, and how long it waits."""

from __future__ import annotations

REFRESH_S = 10.0
"""How often topics, partitions and leaders are asked for when nothing has failed."""

REFRESH_PAUSE_S = 0.1
RECHECK_S = 0.2
UPKEEP_S = 1.0
FLUSH_S = 10.0

SETTINGS_S = 300.0
"""How often the settings of topics are asked for, after the start."""

MISSING_S = 5.0
"""How long the metadata must lack a topic until the topic counts as deleted."""

SILENT_S = 15.0
"""How long a broker may not answer, or a partition may have no leader, before it is reported.

A cluster names another leader for a broker that was killed after some ten seconds (broker.session.timeout.ms).
"""

PATIENCE_S = 60.0
"""With `once`: how long the source may not answer, or a partition may have no leader."""
