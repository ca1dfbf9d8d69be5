"""Crash recovery: turns the files that a crash left into a log that can be opened."""
