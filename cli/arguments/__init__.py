"""What the arguments of commands mean: log directories, partitions, files, options."""
