"""Threads, workers and waiting requests."""
