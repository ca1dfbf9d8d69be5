"""Segments: log file, indexes, file names, and the map of the segments of a partition."""
