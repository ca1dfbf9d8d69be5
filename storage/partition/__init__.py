"""The log of one partition: append, read, roll, truncate, delete records, replace segments, follow another writer."""
