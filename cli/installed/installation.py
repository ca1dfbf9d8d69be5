"""Installs the files into a system, and removes them.

A file is written only where there is none, or one that an earlier installation wrote and that is unchanged.
Files are written under a temporary name and renamed, so that readers never see a part of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from offsetfs.cli.exit_codes import FAILED, Failure
from offsetfs.cli.installed.contents import MARK, Installed

_DIRECTORY = "# directory "


@dataclass(slots=True)
class Ledger:
    """The list of installed files: `PREFIX/share/offsetfs/installed`, in the format of sha256sum(1).

    With it --remove removes exactly the files that were written, also those of an earlier version, and recognizes files
    that have changed since. Paths are below the root; directories that the installation created are in comments.
    """

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


ReportStep = Callable[[str, str], None]
"""Called with what is done (`wrote`, `unchanged`, `removed`, `kept`) and the path it is done to."""


class Installation:
    """The files below `root`, whose ledger is at `ledger_path`. `dry_run`: only report."""

    def __init__(self, root: str, prefix: str, report: ReportStep, *, force: bool, dry_run: bool) -> None:
        self._root = root.rstrip("/")
        self._ledger_path = f"{prefix}/share/offsetfs/installed"
        self._report = report
        self._force = force
        self._dry_run = dry_run
        text = self._read(self._ledger_path)
        self._ledger = Ledger.parse(text.decode(errors="replace")) if text is not None else Ledger()

    def install(self, wanted: Sequence[Installed]) -> None:
        """Write all files, and remove those of an earlier version. `Failure` before anything when one is not ours."""
        foreign = [file.path for file in wanted if not self._may_write(file)]
        if foreign:
            raise Failure(
                f"{', '.join(foreign)}: there already, and not as we wrote it (--force overwrites it)", FAILED
            )
        paths = {file.path for file in wanted}
        for path in [path for path in self._ledger.files if path not in paths]:
            self._remove(path)
        for file in wanted:
            self._write(file)
        self._save()

    def remove(self) -> None:
        """Remove what the ledger names, but for what was changed since, and the directories that were made."""
        for path in list(self._ledger.files):
            self._remove(path)
        if self._ledger.files:
            self._save()
            return
        if not self._dry_run:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._root + self._ledger_path)
        for path in sorted(self._ledger.directories, key=len, reverse=True):
            self._remove_directory(path)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is installed."""
        return not self._ledger.files

    # --- one file ----------------------------------------------------------------------------------------------------

    def _may_write(self, file: Installed) -> bool:
        there = self._read(file.path)
        return self._force or there is None or there == file.content.encode() or self._is_as_written(file.path, there)

    def _is_as_written(self, path: str, content: bytes) -> bool:
        known = self._ledger.files.get(path)
        return digest(content) == known if known is not None else MARK.encode() in content

    def _write(self, file: Installed) -> None:
        content = file.content.encode()
        is_there = self._read(file.path) == content
        self._report("unchanged" if is_there else "would write" if self._dry_run else "wrote", file.path)
        if self._dry_run:
            return
        if not is_there:
            self._make_directories(os.path.dirname(file.path))
            _replace(self._root + file.path, content, file.mode)
        self._ledger.files[file.path] = digest(content)

    def _remove(self, path: str) -> None:
        content = self._read(path)
        if content is not None and not self._force and not self._is_as_written(path, content):
            self._report("kept, changed since it was written (--force removes it)", path)
            return
        if content is not None:
            self._report("would remove" if self._dry_run else "removed", path)
        if not self._dry_run:
            if content is not None:
                os.unlink(self._root + path)
            del self._ledger.files[path]

    def _remove_directory(self, path: str) -> None:
        """Remove the directories that we made, if they are empty."""
        with contextlib.suppress(OSError):
            if not self._dry_run:
                os.rmdir(self._root + path)
                self._report("removed", path)

    def _make_directories(self, path: str) -> None:
        if path == "/":
            os.makedirs(self._root or "/", exist_ok=True)
        if os.path.isdir(self._root + path):
            return
        self._make_directories(os.path.dirname(path))
        os.mkdir(self._root + path)
        os.chmod(self._root + path, 0o755)  # whatever the umask of root: everybody reads manual pages
        self._ledger.directories.append(path)

    def _read(self, path: str) -> bytes | None:
        """Return the content of a regular file, None when there is nothing; what is neither is not ours."""
        try:
            if not stat.S_ISREG(os.lstat(self._root + path).st_mode):
                return b""
            with open(self._root + path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _save(self) -> None:
        if not self._dry_run:
            self._make_directories(os.path.dirname(self._ledger_path))
            _replace(self._root + self._ledger_path, self._ledger.text().encode(), 0o644)


def _replace(path: str, content: bytes, mode: int) -> None:
    temporary = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
    os.replace(temporary, path)
