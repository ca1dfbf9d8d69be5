"""From what a crash left to a log that can be served."""
