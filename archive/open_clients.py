"""Ends the connections of a store when nothing uses it any longer, and when the process ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine
from typing import Any

_CLOSE_S_MAX = 1.0


def close_with(owner: object, loop: AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run `close` in the event loop when `owner` is collected; it must not refer to `owner`."""
    weakref.finalize(owner, _close, loop, close, os.getpid())


def _close(loop: AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, object]], pid: int) -> None:
    if os.getpid() != pid or not loop.is_running():  # a forked child has no thread for the loop
        return
    try:
        is_inside = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_inside = False
    closing = asyncio.run_coroutine_threadsafe(close(), loop)
    if not is_inside:
        with contextlib.suppress(TimeoutError):
            closing.result(_CLOSE_S_MAX)
