"""The bytes that DuckDB writes, handed to a function."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

_BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def forwarding(path: str, write: Callable[[bytes], object]) -> Iterator[str]:
    """Yield a named pipe; what is written into it goes to `write`, in another thread. Raises what `write` raises.

    Statements may write in the directory for temporary files only, so DuckDB does not open the file of the rows itself.
    """
    os.mkfifo(path, 0o600)
    source = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    end = os.open(path, os.O_WRONLY)  # until it is closed, the pipe has no end
    os.set_blocking(source, True)
    with ThreadPoolExecutor(1, "output") as executor:
        running = executor.submit(_forward, source, write)
        try:
            yield path
        except Exception:  # EPIPE after a failure of `write`, which is the one to report
            os.close(end)
            running.result()
            raise
        except BaseException:
            os.close(end)
            raise
        else:
            os.close(end)
            running.result()
        finally:
            os.unlink(path)


def _forward(source: int, write: Callable[[bytes], object]) -> None:
    with open(source, "rb", buffering=0) as pipe:  # if it ends early, DuckDB gets EPIPE
        while block := pipe.read(_BLOCK_BYTES):
            write(block)
