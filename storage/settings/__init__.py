"""What a topic and a directory can be told: Kafka's settings, their ranges and defaults, and where they are kept."""
