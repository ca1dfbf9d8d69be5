"""A log directory: its partitions, their checkpoints and settings, how they are made and removed."""
