"""offsetfs: a Kafka log directory, mounted as a file system."""

__version__ = "0.1.0"
