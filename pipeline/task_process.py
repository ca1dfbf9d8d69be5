"""The process in which Spark runs one Python task after the other: what is set up in it once.

After each of them PySpark has all of Python's garbage collected: a walk over every object that pyspark, pyarrow, numpy
and we have loaded, 20 ms and more, which is most of what a small task costs. What was loaded once stays, so it is taken
out of these walks.
"""

from __future__ import annotations

import functools
import gc
import io
import sys
from typing import TextIO


@functools.cache
def settle() -> None:
    """Leave what is there now out of all later collections; to be called by a task when it has loaded what it needs.

    Does so once in a process. Objects that come later are collected as ever.
    """
    gc.collect()
    gc.freeze()
    sys.stderr = _WithoutBrokenPipes(sys.stderr)


class _WithoutBrokenPipes(io.TextIOBase):
    """The standard error of a task, without the stack that PySpark prints where Spark has read enough of a task.

    With `limit()` and `show()` the JVM closes the connection before the task has written everything. That is no fault,
    but PySpark's daemon cannot tell: it prints the stack of a `BrokenPipeError` that begins in daemon.py. Stacks are
    held back until their last line says which error it is; all others are passed on.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held = ""

    def write(self, text: str) -> int:
        if not self._held and not text.startswith(_STACK):
            return self._stream.write(text)
        self._held += text
        last = self._held.rstrip("\n").rpartition("\n")[2]
        if last.startswith((_STACK, " ")) or not self._held.endswith("\n"):
            return len(text)
        held, self._held = self._held, ""
        if not (last.startswith("BrokenPipeError") and "daemon.py" in held.split("\n", 2)[1]):
            self._stream.write(held)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()


_STACK = "Traceback (most recent call last)"
