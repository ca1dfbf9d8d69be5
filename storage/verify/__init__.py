"""Checks that change nothing, and repairs that say first what they would do."""
