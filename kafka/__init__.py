"""What speaks the Kafka protocol: messages, a client, the broker of `serve`, copies of clusters and into clusters."""
