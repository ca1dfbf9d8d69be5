"""Set-up of the process in which Spark runs Python tasks one after another.

PySpark runs a full garbage collection after each task: a walk over every object that pyspark, pyarrow, numpy and this
package have loaded. It takes 20 ms or more, which is most of the cost of a small task. Loaded modules stay, so their
objects are excluded from these walks.
"""

from __future__ import annotations

import functools
import gc
import io
import sys
from typing import TextIO


@functools.cache
def settle() -> None:
    """Exclude all current objects from later collections (`gc.freeze`). A task calls it after its imports.

    Has an effect once per process. Later objects are collected as usual.
    """
    gc.collect()
    gc.freeze()
    sys.stderr = _WithoutBrokenPipes(sys.stderr)


class _WithoutBrokenPipes(io.TextIOBase):
    """The standard error of a task, without the stack that PySpark prints when Spark has read enough of a task.

    With `limit()` and `show()` the JVM closes the connection before the task has written everything. That is not an
    error, but PySpark's daemon prints the stack of a `BrokenPipeError` in daemon.py. Stacks are held back until their
    last line names the error; all others are passed on.
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
