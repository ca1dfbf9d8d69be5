"""The intervals and time limits of a mirror."""

from __future__ import annotations

REFRESH_S = 10.0
"""The interval between requests for topics, partitions and leaders when nothing has failed."""

REFRESH_PAUSE_S = 0.1
RECHECK_S = 0.2
UPKEEP_S = 1.0
FLUSH_S = 10.0

SETTINGS_S = 300.0
"""The interval between requests for the settings of topics, after the start."""

MISSING_S = 5.0
"""The time for which the metadata must lack a topic until the topic counts as deleted."""

SILENT_S = 15.0
"""The time after which a silent broker, or a partition without a leader, is reported.

A cluster names another leader for a broker that was killed after some ten seconds (broker.session.timeout.ms).
"""

PATIENCE_S = 60.0
"""With `once`: the time after which a silent source, or a partition without a leader, is given up."""
