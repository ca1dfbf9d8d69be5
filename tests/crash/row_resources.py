"""Row 17: few descriptors, little memory, ten thousand partitions, a million names in a listing.

Each round is one of seven lives, by the seed. Four are of the engine alone (`resource_lives`), three of a mount. What
the system refuses reaches the caller, what was acknowledged is there afterwards, and memory, descriptors, threads and
time stay within what is stated here, whatever there is of partitions, segments and records.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daemons import mounted
from fault_program import Row
from fixtures.machine.open_descriptors import deleted_but_open, open_files
from log_model import present

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder

DESCRIPTORS = 64
ADDRESSES = 1 << 30
"""Of addresses: an interpreter with the engine takes a quarter of it."""

PEAK_BYTES_MAX = 400 << 20
MANY_PEAK_BYTES_MAX = 250 << 20
PARTITIONS = 10_000
RECORDS = 1_000_000
SECONDS_MAX = 300
DELETE_DELAY_MS = 2_000

ORDERS = TopicPartition("orders", 0)


def play(seed: int, scratch: Path) -> int:
    """Play one life; return 1."""
    list(_LIVES.values())[seed % len(_LIVES)](scratch)
    return 1


# --- the engine alone ------------------------------------------------------------------------------------------------


def _few_descriptors(scratch: Path) -> None:
    logged = _live("few_descriptors", scratch, f"--nofile={DESCRIPTORS}")
    assert len(logged["written"]) == 40, logged
    assert logged["descriptors"] < DESCRIPTORS // 2 + 10, logged
    directory = LogDirectory.open(os.fspath(scratch))
    for name, count in logged["written"].items():
        values = [record.value for record in present(directory.log(TopicPartition.parse(name))).values()]
        assert values == [b"%d" % number for number in range(count)], f"{name}: {values}"
    directory.close()


def _little_memory(scratch: Path) -> None:
    logged = _live("little_memory", scratch, f"--as={ADDRESSES}")
    assert logged["peak"] < PEAK_BYTES_MAX, f"{logged['peak'] >> 20} MiB"


def _many_partitions(scratch: Path) -> None:
    directory = LogDirectory.open(os.fspath(scratch))
    directory.create_partition(TopicPartition("many", 0))
    directory.close()
    (scratch / ".kafka_cleanshutdown").unlink()
    files = {file.name: file.read_bytes() for file in (scratch / "many-0").iterdir()}
    for number in range(1, PARTITIONS):
        (scratch / f"many-{number}").mkdir()
        for name, content in files.items():
            (scratch / f"many-{number}" / name).write_bytes(content)
    logged = _live("many_partitions", scratch, f"--as={ADDRESSES}")
    assert logged["partitions"] == PARTITIONS and logged["peak"] < MANY_PEAK_BYTES_MAX, logged
    assert logged["descriptors"] < 3 * PARTITIONS // 200 + 20, logged


def _live(name: str, scratch: Path, limit: str) -> dict[str, Any]:
    command = ["prlimit", limit, sys.executable, str(Path(__file__).with_name("resource_lives.py")), name, str(scratch)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _long_compaction(scratch: Path) -> None:
    logged = _live("long_compaction", scratch, f"--nofile={DESCRIPTORS}")
    assert logged["waiting"] > 100, "no two removed segments waited at once"
    assert logged["descriptors"] < DESCRIPTORS - 10 and logged["threads"] == 1, logged


# --- a mount ---------------------------------------------------------------------------------------------------------


def _mount_with_few_descriptors(scratch: Path) -> None:
    log, path = scratch / "log", scratch / "mount"
    log.mkdir()
    taken = 0
    with mounted(log, path, "create", ("prlimit", f"--nofile={DESCRIPTORS}")) as daemon:
        for number in range(100):
            (path / f"orders-{number}").mkdir()
            with open(path / f"orders-{number}" / "append", "wb", buffering=0) as stream:
                stream.write(b"a line\n")
                if number % 2:
                    os.fsync(stream.fileno())
            taken += 1
            assert (path / f"orders-{number}" / "values").read_bytes() == b"a line\n"
        assert len(os.listdir(f"/proc/{daemon.pid}/fd")) <= DESCRIPTORS
        daemon.unmount()
    directory = LogDirectory.open(os.fspath(log))
    ends = [directory.log(partition).next_offset for partition in directory.partitions()]
    assert ends == [1] * taken, ends
    directory.close()


def _long_compaction_of_a_mount(scratch: Path) -> None:
    log, path = scratch / "log", scratch / "mount"
    log.mkdir()
    options = (
        "create,cleanup.policy=compact,segment.bytes=100000,min.cleanable.dirty.ratio=0,log.cleaner.backoff.ms=20,"
        f"file.delete.delay.ms={DELETE_DELAY_MS},flush-ms=100"
    )
    with mounted(log, path, options) as daemon:
        (path / str(ORDERS)).mkdir()
        _rewrite_keys(path, 50)
        descriptors, threads = len(open_files(daemon.pid)), _threads(daemon.pid)
        inodes = set[int]()
        for _ in range(8):
            _rewrite_keys(path, 50)
            with contextlib.suppress(FileNotFoundError):  # amid a swap
                inodes.add((log / str(ORDERS) / f"{0:020d}.log").stat().st_ino)
            assert len(open_files(daemon.pid)) < descriptors + 120, f"{descriptors}, then {open_files(daemon.pid)}"
            assert _threads(daemon.pid) < threads + 20
        assert len(inodes) > 3, "the first segment was hardly ever compacted"
        kept, deadline = [""] * 10, time.monotonic() + 30
        while len(kept) >= 10 and time.monotonic() < deadline:
            time.sleep(2 * DELETE_DELAY_MS / 1000)  # the daemon removes the files by itself
            assert len((path / str(ORDERS) / "values").read_bytes()) >= 100 * 101  # which forgets the view before
            kept = deleted_but_open(log, daemon.pid)
        assert len(kept) < 10, kept
        daemon.unmount()


def _rewrite_keys(path: Path, rounds: int) -> None:
    """Write the same hundred keys again and again, and read what is left of them."""
    lines = b"".join(b'{"key": "%d", "value": "%s"}\n' % (key, b"x" * 100) for key in range(100))
    for _ in range(rounds):
        with open(path / str(ORDERS) / "append.ndjson", "wb", buffering=0) as stream:
            stream.write(lines)
    assert len((path / str(ORDERS) / "values").read_bytes()) >= 100 * 101


def _threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def _million_listed(scratch: Path) -> None:
    log, path = scratch / "log", scratch / "mount"
    log.mkdir()
    _write_records(log)
    with mounted(log, path, "ro,list=all") as daemon:
        before = _resident_bytes(daemon.pid)
        with os.scandir(path / str(ORDERS)) as entries:
            listed = sum(entry.name.isdigit() for entry in entries)
        assert listed == RECORDS, f"{listed} listed"
        growth = _resident_bytes(daemon.pid) - before
        assert growth < PEAK_BYTES_MAX // 4, f"{growth >> 20} MiB more"
        daemon.unmount()


def _write_records(log: Path) -> None:
    directory = LogDirectory.open(os.fspath(log))
    partition = directory.create_partition(ORDERS)
    builder, lines, start = BatchBuilder(1 << 20, Compression("none")), b"a line\n" * RECORDS, 0
    while start < len(lines):
        start = builder.split(lines, start, len(lines), 1_700_000_000_000)
        partition.append(builder.seal())
        builder.reset()
    assert partition.next_offset == RECORDS
    directory.close()


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


_LIVES: dict[str, Callable[[Path], None]] = {
    "few descriptors": _few_descriptors,
    "little memory": _little_memory,
    "many partitions": _many_partitions,
    "a mount with few descriptors": _mount_with_few_descriptors,
    "a million listed": _million_listed,
    "long compaction": _long_compaction,
    "long compaction of a mount": _long_compaction_of_a_mount,
}

ROW = Row(
    17,
    "resources",
    "too little of something, or too much",
    play,
    seeds_in_ci=range(7),
    goal=7,
    unit="lives",
    needs=("prlimit", "fuse", "root"),
    promises=(
        "Memory, open files and the time per request are bounded, whatever the files contain.",
        "A failed disk operation is reported to its caller with its error, loses no acknowledged "
        "record, and leaves no file open.",
    ),
)
