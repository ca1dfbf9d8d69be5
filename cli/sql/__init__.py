"""What `offsetfs sql` prints, and its prompt."""
