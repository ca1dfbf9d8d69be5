"""The log engine: Kafka's files, read and written. Synchronous; knows no event loop, no FUSE, nothing above it."""
