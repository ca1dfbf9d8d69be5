"""The mount: a log directory as a file system, on trio and pyfuse3."""
