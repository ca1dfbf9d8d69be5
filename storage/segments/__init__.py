"""A segment: its log file, its indexes, its names on disk, and the map of those that make a partition."""
