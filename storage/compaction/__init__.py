"""Of the records of a key only the latest stays, as Kafka's cleaner leaves them."""
