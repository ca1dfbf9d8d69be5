"""`import offsetfs`: a log directory in a Python program. Partitions are read, appended to and followed."""
