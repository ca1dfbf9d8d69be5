"""The settings of a topic and a directory: Kafka's settings, their ranges and defaults, and where they are kept."""
