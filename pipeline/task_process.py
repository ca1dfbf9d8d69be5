"""The process in which Spark runs one Python task after the other.

After each of them PySpark has all of Python's garbage collected: a walk over every object that pyspark, pyarrow, numpy
and we have loaded, 20 ms and more, which is most of what a small task costs. What was loaded once stays, so it is taken
out of these walks.
"""

from __future__ import annotations

import functools
import gc


@functools.cache
def settle() -> None:
    """Leave what is there now out of all later collections; to be called by a task when it has loaded what it needs.

    Does so once in a process. Objects that come later are collected as ever.
    """
    gc.collect()
    gc.freeze()
