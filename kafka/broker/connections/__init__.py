"""Connections of clients: listeners, requests in order, limits of memory and time."""
