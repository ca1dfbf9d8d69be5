"""The log of one partition, and what becomes of it: append, read, roll, truncate, delete, replace, follow."""
