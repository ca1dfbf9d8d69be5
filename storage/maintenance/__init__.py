"""What an open directory needs to have done, and when: retention, compaction, checkpoints, removals."""
