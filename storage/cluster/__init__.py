"""The cluster that a log directory belongs to, read from its metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.cluster.metadata_replay import replay as replay

__getattr__ = lazy_names(__name__, {"replay": "cluster.metadata_replay"})
