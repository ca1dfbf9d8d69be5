"""Appends: framing of lines, JSON lines and whole files, batching, and group commit."""
