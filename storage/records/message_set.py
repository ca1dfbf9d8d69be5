"""Message sets of v0 and v1: the compiled `_messages`, or its plain twin `message_set_pure`.

Both do the same to every input; the docstrings are in `message_set_pure`. OFFSETFS_PURE=1 in the environment asks for
the twin; so does a big-endian machine.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from offsetfs.storage.records.message_set_pure import Buffer, field

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1" or sys.byteorder == "big":
    from offsetfs.storage.records.message_set_pure import join, measure, run, scan, verify
else:
    try:
        from offsetfs.storage.records._messages import join, measure, run, scan, verify
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.records.message_set_pure import join, measure, run, scan, verify

IS_COMPILED = verify.__module__ != "offsetfs.storage.records.message_set_pure"

__all__ = ["IS_COMPILED", "Buffer", "field", "join", "measure", "run", "scan", "verify"]
