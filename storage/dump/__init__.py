"""The output of Kafka's DumpLogSegments, byte for byte."""
