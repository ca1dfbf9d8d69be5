"""A log directory: its partitions, checkpoints and settings; creating and deleting partitions."""
