"""Text that others chose, made fit to print: a name in it can neither move the cursor nor begin a line of its own.

File names, mount points and names of processes may hold any byte; a terminal obeys some of them.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Return `text` with everything that is not printable escaped, newlines too."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
