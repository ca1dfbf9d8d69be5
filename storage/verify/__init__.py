"""Verification of a log directory without changing it, and repairs that first report what they would do."""
