"""What brokers keep in topics of their own: groups, offsets, transactions, cluster metadata."""
