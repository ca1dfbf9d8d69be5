"""Records as lines of JSON, in both directions."""
