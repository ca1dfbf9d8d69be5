"""Topics and their settings: creation, changes, descriptions."""
