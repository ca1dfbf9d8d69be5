"""Output on a terminal: text that is safe to print, progress, warnings, questions."""
