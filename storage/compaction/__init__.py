"""Compaction: keeps only the latest record of each key, as Kafka's cleaner does."""
