"""Daemons and their mounts: registry, background process, unmount, state of a mount."""
