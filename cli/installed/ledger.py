"""The list of installed files: `PREFIX/share/offsetfs/installed`, in the format of sha256sum(1).

With it --remove removes exactly the files that were written, also those of an earlier version, and recognizes files
that have changed since. Directories that the installation created are listed in comments.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from offsetfs.cli.installed.contents import MARK

_DIRECTORY = "# directory "


@dataclass(slots=True)
class Ledger:
    """Paths as they are below the root, with the SHA-256 of what was written; directories that were made."""

    files: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Ledger:
        """Read what `text` wrote; other lines are ignored."""
        ledger = cls()
        for line in text.splitlines():
            digest, gap, path = line.partition("  ")
            if line.startswith(_DIRECTORY):
                ledger.directories.append(line.removeprefix(_DIRECTORY))
            elif gap and len(digest) == 64 and path.startswith("/"):
                ledger.files[path] = digest
        return ledger

    def text(self) -> str:
        lines = [f"# {MARK}", *(_DIRECTORY + path for path in self.directories)]
        return "\n".join([*lines, *(f"{digest}  {path}" for path, digest in self.files.items()), ""])


def digest(content: bytes) -> str:
    """Return what the ledger says of a file with this content."""
    return hashlib.sha256(content).hexdigest()
