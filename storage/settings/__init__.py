"""The settings of a topic and a directory: Kafka's settings, their ranges and defaults, and where they are kept."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
