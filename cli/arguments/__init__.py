"""Parses the arguments of commands: log directories, partitions, files, options."""
