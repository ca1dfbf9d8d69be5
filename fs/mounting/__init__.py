"""A mount from end to end: its daemon, its handlers, its directories; and the same tree without a kernel."""
