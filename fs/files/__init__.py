"""The files of the tree, by kind."""
