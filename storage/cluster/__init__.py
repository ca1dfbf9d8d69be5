"""The cluster that a log directory belongs to, read from its metadata log."""
