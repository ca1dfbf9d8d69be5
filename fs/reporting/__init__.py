"""Error log, errno values, counters, and how numbers are printed."""
