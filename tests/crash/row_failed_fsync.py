"""Row 10: an fsync that fails once, at every place where there is one."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from programme import Row

from offsetfs.storage import files
from offsetfs.storage.batch_builder import BatchBuilder
from offsetfs.storage.config import Compression
from offsetfs.storage.directory import LogDirectory
from offsetfs.storage.errors import LogFenced
from offsetfs.storage.names import TopicPartition

PARTITION = TopicPartition("orders", 0)


def play(seed: int, scratch: Path) -> int:
    """Fail the sync of the log, of its index or of its time index, by the seed; nothing later may be acknowledged."""
    failing = seed % 3
    directory = LogDirectory.open(str(scratch))
    log = directory.create_partition(PARTITION)
    builder = BatchBuilder(1 << 12, Compression("none", None))
    builder.append(b"k", b"v", (), 1)
    log.append(builder.seal())
    count = 0

    def sync(file: files.File) -> None:
        nonlocal count
        count += 1
        if count == failing + 1:
            raise OSError(errno.EIO, "injected", file.path)

    with mock.patch.object(files.File, "sync", sync):
        _expect(OSError, log.flush)
        _expect(LogFenced, log.flush)
    builder.reset()
    builder.append(b"k", b"v", (), 1)
    _expect(LogFenced, lambda: log.append(builder.seal()))
    _expect(OSError, directory.close)
    return 3


def _expect(error: type[Exception], action: Callable[[], object]) -> None:
    try:
        action()
    except error:
        return
    raise AssertionError(f"{error.__name__} was to reach the caller")


ROW = Row(10, "failed_fsync", "an fsync fails once", play, seeds_in_ci=range(3), goal=100)
