"""The output of `offsetfs sql`, and its prompt."""
