"""SCRAM credentials and ACLs of a log directory."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
