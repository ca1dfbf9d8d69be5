"""Events, reads and waiting requests."""
