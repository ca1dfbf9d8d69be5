"""Whole partitions as growing files, and where each of their bytes comes from."""
