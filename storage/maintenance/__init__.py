"""Background tasks of an open log directory: retention, compaction, checkpoints, removals."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
