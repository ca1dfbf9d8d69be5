"""Consumer groups: members, assignments, committed offsets, in both protocols."""
