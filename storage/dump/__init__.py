"""The output of Kafka's DumpLogSegments, byte for byte."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
