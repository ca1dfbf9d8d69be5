"""Produce, Fetch, and searches by offset, time and leader epoch."""
