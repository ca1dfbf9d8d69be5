"""The records of Kafka's internal topics: groups, offsets, transactions, cluster metadata."""
