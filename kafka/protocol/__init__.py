"""Kafka's messages: schemas, and functions that read and write them."""
