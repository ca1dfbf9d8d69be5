"""Names, paths and inode numbers of the tree."""
