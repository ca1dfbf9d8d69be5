"""The tree in process is the tree of a mount: every path, listed or by name, with the same attributes and bytes."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyfuse3 import EntryAttributes, FUSEError

from offsetfs import NewRecord
from offsetfs import open as open_log
from offsetfs.fs.mounting.in_process_tree import run
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.mounting.path_tree import Entry, Tree
from offsetfs.fs.naming.inodes import ROOT
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage.directory.directory import LogDirectory

OPTIONS = "ro,list=all,damage=skip"
BEGINNING_MS = 1_795_266_300_000
"""2026-11-21T13:05 UTC."""

COUNTED = (".offsetfs/stats", ".offsetfs/metrics")
"""What counts requests says another thing in each process."""

Mount = Callable[..., Any]
Seen = dict[str, tuple[int, int, int, bytes]]
"""Mode, size, modification time and content by path; that of a link is its target, of a directory its names."""


# --- one tree, looked at in two ways ----------------------------------------------------------------------------------


def in_process(log: Path, options: str, named: list[str]) -> Seen:
    """Look at everything that is listed, and at what is `named`, without a mount."""
    seen: Seen = {}

    async def look(tree: Tree, path: str) -> None:
        entry = await tree.find(path, follows=False)
        if stat.S_ISDIR(entry.mode):
            entries = await listed(tree, path)
            content = b"\n".join(each.name for each in entries)
            for each in entries:
                below = f"{path}/{os.fsdecode(each.name)}"
                await look(tree, below)
                assert seen[below.lstrip("/")][:3] == (each.mode, each.size, each.mtime_ns)
        elif stat.S_ISLNK(entry.mode):
            content = os.fsencode(await tree.target(entry))
        else:
            content = await read(tree, path)
        seen[path.lstrip("/")] = entry.mode, entry.size, entry.mtime_ns, content

    async def everything(tree: Tree) -> None:
        await look(tree, "")
        for name in named:
            try:
                await look(tree, name)
            except OSError as error:
                seen[name] = 0, 0, 0, errno.errorcode[error.errno or 0].encode()

    chosen = MountOptions.parse([options])
    run(LogDirectory.open(str(log), read_only=chosen.read_only), chosen, everything)
    return seen


async def listed(tree: Tree, path: str) -> list[Entry]:
    entries: list[Entry] = []

    async def take(some: list[Entry]) -> None:
        entries.extend(some)

    await tree.entries(path, take)
    return entries


async def read(tree: Tree, path: str) -> bytes:
    pieces: list[bytes] = []
    async with tree.open(path) as file:
        while piece := await file.read(sum(map(len, pieces)), 1 << 20):
            pieces.append(bytes(piece))
    return b"".join(pieces)


def through_a_mount(point: Path, named: list[str]) -> Seen:
    """Look at the same through the kernel."""
    seen: Seen = {}

    def look(path: str) -> None:
        place = f"{point}/{path}" if path else str(point)
        status = os.lstat(place)
        if stat.S_ISDIR(status.st_mode):
            names = os.listdir(os.fsencode(place))
            content = b"\n".join(names)
            for name in names:
                look(f"{path}/{os.fsdecode(name)}")
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(os.fsencode(place))
        else:
            content = Path(place).read_bytes()
        seen[path.lstrip("/")] = status.st_mode, status.st_size, status.st_mtime_ns, content

    look("")
    for name in named:
        try:
            look(name)
        except OSError as error:
            seen[name] = 0, 0, 0, errno.errorcode[error.errno or 0].encode()
    return seen


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a bit of everything: keys, headers, tombstones, several segments and codecs, an empty partition."""
    path = tmp_path_factory.mktemp("log")
    with open_log(path, "a") as directory:
        (orders,) = directory.create("orders", settings={"segment.bytes": "2000"})
        for first in range(0, 90, 9):
            orders.extend(
                NewRecord(b"value %d" % n, b"key %d" % (n % 7), [("n", b"%d" % n)], BEGINNING_MS + 20_000 * n)
                for n in range(first, first + 9)
            )
        orders.extend([NewRecord(None, b"key 3", (), BEGINNING_MS), NewRecord(b"\xff\n\x00", None, (), -1)])
        (packed, _) = directory.create("packed", partitions=2, settings={"compression.type": "zstd"})
        packed.append_lines(b"the same line\n" * 300, timestamp=BEGINNING_MS)
    return path


NAMED = [
    *("README", "nothing", "orders-0/", "orders-0/..", "orders-7", "orders-0/42/..", "orders-0/42/x", "x" * 256),
    *(".offsetfs", ".offsetfs/version", ".offsetfs/errors", ".offsetfs/config", ".offsetfs/nothing"),
    *("orders-0/00000000000000000042", "orders-0/042", "orders-0/99999", "orders-0/-1"),
    *(f"orders-0/{name}.{part}" for name in ("42", "90", "91", "999") for part in ("json", "key", "headers")),
    *("orders-0/records.ndjson", "orders-0/range", "orders-0/last", "orders-0/by-key"),
    *(
        "orders-0/by-time/2026-11-21T13:05",
        "orders-0/by-time/@1795266301",
        "orders-0/by-time/1970",
        "orders-0/by-time/x",
    ),
    *("orders-0/range/5..8", "orders-0/range/..", "orders-0/range/5..8.ndjson", "orders-0/range/2026-11-21T13:10.."),
    *("orders-0/range/8..5", "orders-0/last/3", "orders-0/last/3.ndjson", "orders-0/last/x"),
    *("orders-0/by-key/key%204", "orders-0/by-key/key%203", "orders-0/by-key/none"),
    *("packed-0/values", "packed-0/299", "packed-1/values", "packed-1/first", "packed-1/latest"),
    *("topics", "topics/orders", "topics/orders/append", "topics/nothing", "groups", "groups/none"),
]


@pytest.mark.mount
@pytest.mark.promise(
    "`offsetfs ls` and `offsetfs cat` show what a mount shows, without a mount: the same names, "
    "sizes, times, bytes and errors."
)
def test_every_path_is_what_it_is_on_a_mount(log: Path, mount: Mount) -> None:
    point = mount(log, OPTIONS).path
    there, here = through_a_mount(point, NAMED), in_process(log, OPTIONS, NAMED)
    assert len(here) > 450 and set(here) == set(there)
    assert {path for path in here if here[path] != there[path] and path not in COUNTED} == set()
    files = [path for path, (mode, *_) in here.items() if stat.S_ISREG(mode) and path not in COUNTED]
    printed = subprocess.run(
        [sys.executable, "-m", "offsetfs", "cat", log, *files, "-o", OPTIONS], stdout=subprocess.PIPE
    )
    assert printed.returncode == 0 and printed.stdout == b"".join(there[path][3] for path in files)


@pytest.mark.mount
def test_what_kafka_wrote_is_the_same_for_committed_readers(golden: Path, mount: Mount) -> None:
    options = "ro,list=5,isolation=read_committed"
    partitions = [path.name for path in golden.glob("*-[0-9]")]
    views = ("values", "records.ndjson", "range/..", "last/2.ndjson", "by-time/@0", "by-key/key-18", "info", "7.json")
    named = [f"{partition}/{view}" for partition in partitions for view in views]
    point = mount(golden, options).path
    there, here = through_a_mount(point, named), in_process(golden, options, named)
    assert len(here) > 300 and set(here) == set(there) and set(named) <= set(here)
    assert {path for path in here if here[path] != there[path]} == set()


# --- what the kernel does by itself -----------------------------------------------------------------------------------


def errors_of(log: Path, paths: list[str], *, flags: int = os.O_RDONLY) -> list[str]:
    """Return how opening each path ends."""
    found: list[str] = []

    async def work(tree: Tree) -> None:
        for path in paths:
            try:
                async with tree.open(path, flags):
                    found.append("opened")
            except OSError as error:
                found.append(errno.errorcode[error.errno or 0])

    run(LogDirectory.open(str(log), read_only=True), MountOptions(read_only=True), work)
    return found


PATHS = {
    "/orders-0/42": "opened",
    "orders-0//./42": "opened",
    "orders-0/latest": "opened",
    "orders-0/by-time/2026-11-21T13:06": "opened",
    "../../orders-0/../packed-0/1": "opened",
    "orders-0": "EISDIR",
    "": "EISDIR",
    "orders-0/42/": "opened",
    "orders-0/42/x": "ENOTDIR",
    "orders-0/42/..": "ENOTDIR",
    "orders-0/nothing/../42": "ENOENT",
    "orders-0/" + "x" * 256: "ENAMETOOLONG",
}


@pytest.mark.unit
def test_paths_are_walked_as_the_kernel_walks_them(log: Path) -> None:
    assert dict(zip(PATHS, errors_of(log, list(PATHS)), strict=True)) == PATHS


@pytest.mark.unit
@pytest.mark.parametrize(("path", "answer"), [("orders-0/append", "EROFS"), ("orders-0/42", "EROFS")])
def test_nothing_is_opened_for_writing_where_one_reads(log: Path, path: str, answer: str) -> None:
    assert errors_of(log, [path], flags=os.O_WRONLY) == [answer]


@pytest.mark.unit
def test_a_long_directory_comes_in_pages(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.fs.mounting.path_tree.LISTED_AT_ONCE", 7)
    sizes: list[int] = []

    async def work(tree: Tree) -> None:
        async def take(entries: list[Entry]) -> None:
            sizes.append(len(entries))

        await tree.entries("packed-0", take)
        assert (await tree.find("")).inode == ROOT

    run(LogDirectory.open(str(log), read_only=True), MountOptions(read_only=True, listed_max=None), work)
    assert set(sizes[:-1]) == {7} and sum(sizes) > 300


@pytest.mark.unit
def test_an_index_being_built_is_awaited_and_reported(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup, reported = Operations.lookup, list[str]()

    async def busy(self: Operations, parent_inode: int, name: bytes, ctx: Any) -> EntryAttributes:
        if name == b"values" and len(reported) < 2:
            self.mount.error_log.report(Fault(errno.EAGAIN, "lookup", "orders-0/values", "half of it is read", "wait"))
            raise FUSEError(errno.EAGAIN)
        return await lookup(self, parent_inode, name, ctx)

    async def work(tree: Tree) -> tuple[int, list[str]]:
        return len(await read(tree, "orders-0/values")), tree.errors()

    monkeypatch.setattr(Operations, "lookup", busy)
    monkeypatch.setattr("offsetfs.fs.mounting.path_tree.AGAIN_S", 0)
    size, story = run(LogDirectory.open(str(log), read_only=True), MountOptions(read_only=True), work, reported.append)
    assert size > 800 and story == []
    assert [line[:40] for line in reported] == ["EAGAIN lookup orders-0/values: half of i"] * 2 + [""]


@pytest.mark.unit
def test_what_the_work_raises_comes_out_as_it_is(log: Path) -> None:
    async def work(tree: Tree) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(LogDirectory.open(str(log), read_only=True), MountOptions(read_only=True), work)
