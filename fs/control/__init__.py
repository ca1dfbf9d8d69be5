"""`.offsetfs`: the files that report the state of a mount and control it."""
