"""The log of Spark and its workers: a file, which is kept only if the job failed.

Spark and Python workers write to the standard error with which their JVM was started. A JVM that was started before
(by spark-submit, or a Connect server) has its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from offsetfs.common.user_directories import state_directory

KEPT_MAX = 10
"""The logs of failed jobs that are kept, at most."""

_READ_MAX = 1 << 20
_REASON = re.compile(
    r"^Exception in thread \"main\" [\w.]+: (.+)$"
    r"|^(JAVA_HOME is not set)$"
    r"|^\S+: line \d+: (.+: No such file or directory)$"
    r"|Application has been killed\. Reason: (.+)$",
    re.MULTILINE,
)


class SparkLog:
    """The file of one job. It is there as soon as it is written to."""

    def __init__(self) -> None:
        self.path = _folder() / f"spark-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.log"

    @contextlib.contextmanager
    def catching(self) -> Iterator[None]:
        """Let everything that is begun within the block write its errors here, as long as it lives."""
        _remove_old(self.path.parent)
        sys.stderr.flush()
        kept = os.dup(2)
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.dup2(file, 2)
            os.close(file)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)

    def add(self, error: BaseException) -> None:
        """Add the stacks of an error: those of this process, of the JVM, of the worker."""
        with self.path.open("a", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)

    def reason(self) -> str | None:
        """Return why there is no session, if the JVM, or the script that begins it, has written it here."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                match = _REASON.search(file.read(_READ_MAX))
        except OSError:
            return None
        return next(filter(None, match.groups())) if match else None

    def remove(self) -> None:
        """Remove the file: Spark's messages are not needed after a success."""
        self.path.unlink(missing_ok=True)


def _folder() -> Path:
    """Return the directory of logs in the user's state, or one for temporary files where that cannot be written."""
    folder = Path(state_directory(os.environ) or tempfile.gettempdir())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return Path(tempfile.gettempdir())
    return folder if os.access(folder, os.W_OK) else Path(tempfile.gettempdir())


def _remove_old(folder: Path) -> None:
    for old in sorted(folder.glob("spark-*.log"))[: -KEPT_MAX + 1]:
        with contextlib.suppress(OSError):
            old.unlink()
