"""Views of a whole partition as a growing file, with the position of each byte in the log, and the key index."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
