"""Views of a whole partition as a growing file, with the position of each byte in the log, and the key index."""
