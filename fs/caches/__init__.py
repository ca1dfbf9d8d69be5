"""Caches of a mount, each bounded in bytes or files."""
