"""The commands of `offsetfs`, one file a verb."""
