"""The Kafka protocol, served from a log directory: one node, no JVM. `server.serve` is the entry point."""
