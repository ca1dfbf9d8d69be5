"""`groups`: the committed offsets of consumer groups, and commits on their behalf."""
