"""Segments: log file, indexes, file names, and the map of the segments of a partition."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
