"""Message sets of v0 and v1, compiled or in Python.

`offsetfs.storage.reference.message_set` has the docstrings and draws the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.reference.message_set import Buffer, field

if TYPE_CHECKING:
    from offsetfs.storage.reference import message_set as _message_set
else:
    _message_set = select("message_set")

join = _message_set.join
measure = _message_set.measure
run = _message_set.run
scan = _message_set.scan
verify = _message_set.verify

__all__ = ["Buffer", "field", "join", "measure", "run", "scan", "verify"]
