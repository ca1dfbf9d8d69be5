"""Background tasks of an open log directory: retention, compaction, checkpoints, removals."""
