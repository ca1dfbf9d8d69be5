"""Ends what DuckDB does at Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import duckdb

_POLL_S = 0.05

_Result = TypeVar("_Result")


class InterruptibleCalls:
    """Calls to a connection that Ctrl-C ends at once, with KeyboardInterrupt.

    DuckDB's own look for signals is too rare in COPY, CREATE TABLE and in results that are fetched: large ones went on
    for minutes. So another thread calls, and the main thread waits. DuckDB forgets an interruption that comes before or
    between two of its steps, so that it is repeated until the call ends.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, "sql")

    def __call__(self, call: Callable[[], _Result]) -> _Result:
        """Return what `call` returns."""
        if threading.current_thread() is not threading.main_thread():
            return call()
        with _noted_signals() as noted:
            running = self._thread.submit(call)
            while not wait((running,), _POLL_S).done:
                if noted:
                    self._connection.interrupt()
        if noted:
            raise KeyboardInterrupt
        return running.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()


@contextlib.contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """Note the signals that would raise KeyboardInterrupt: raised while a lock is taken, it would be lost with it."""
    noted: list[int] = []
    numbers = [
        number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is signal.default_int_handler
    ]
    try:
        for number in numbers:
            signal.signal(number, lambda number, _: noted.append(number))
        yield noted
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)
