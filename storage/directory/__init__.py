"""A log directory: its partitions, checkpoints and settings; creating and deleting partitions."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
