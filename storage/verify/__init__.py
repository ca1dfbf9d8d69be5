"""Verification of a log directory without changing it, and repairs that first report what they would do."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
