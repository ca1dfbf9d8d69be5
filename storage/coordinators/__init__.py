"""The records of Kafka's internal topics: groups, offsets, transactions, cluster metadata."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
