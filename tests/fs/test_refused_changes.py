"""Each change that returns EPERM leaves a line in `.offsetfs/errors` with cause and remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyfuse3
import pytest
import trio
from pyfuse3 import FUSEError

from offsetfs import NewRecord
from offsetfs import open as open_log
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.naming.tree_table import IN_CONTROL, IN_MOUNT, IN_PARTITION, IN_TOPIC, fixed_names
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = pytest.mark.unit

CTX: Any = SimpleNamespace(pid=0)
ABOVE = {IN_MOUNT: "", IN_CONTROL: ".offsetfs/", IN_PARTITION: "orders-0/", IN_TOPIC: "topics/orders/"}
BY_NAME = ("orders-0/0", "orders-0/0.json", "orders-0/0.key", "orders-0/by-key/key", "orders-0/range/0..1",
           "orders-0/by-time/2026", "topics/orders", "topics/orders/last/1", "groups/billing", "groups/billing/lag",
           "groups/billing/orders-0", "__consumer_offsets-0/append", "topics/__consumer_offsets/append")  # fmt: skip
PATHS = [above + name for directory, above in ABOVE.items() for name, _ in fixed_names(directory)] + [*BY_NAME, ""]


def fields(**changed: bool) -> Any:
    names = ("size", "mode", "uid", "gid", "atime", "mtime", "ctime")
    return SimpleNamespace(**{f"update_{name}": changed.get(name, False) for name in names})


def changes(operations: Operations, inode: int) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return each request that would change a file or a directory, by name."""
    size = pyfuse3.EntryAttributes()
    return {
        "open O_WRONLY": lambda: operations.open(inode, os.O_WRONLY, CTX),
        "open O_TRUNC": lambda: operations.open(inode, os.O_RDONLY | os.O_TRUNC, CTX),
        "truncate": lambda: operations.setattr(inode, size, fields(size=True), None, CTX),
        "chmod": lambda: operations.setattr(inode, size, fields(mode=True), None, CTX),
        "setxattr": lambda: operations.setxattr(inode, b"user.x", b"y", CTX),
        "removexattr": lambda: operations.removexattr(inode, b"user.x", CTX),
        "link": lambda: operations.link(inode, pyfuse3.ROOT_INODE, b"new", CTX),
        "create": lambda: operations.create(inode, b"new", 0o644, os.O_WRONLY, CTX),
        "mkdir": lambda: operations.mkdir(inode, b"new-0", 0o755, CTX),
        "rmdir": lambda: operations.rmdir(inode, b"by-time", CTX),
        "rmdir of a group": lambda: operations.rmdir(inode, b"billing", CTX),
        "rmdir of a partition": lambda: operations.rmdir(inode, b"orders-0", CTX),
        "unlink": lambda: operations.unlink(inode, b"0", CTX),
        "unlink of lag": lambda: operations.unlink(inode, b"lag", CTX),
        "mknod": lambda: operations.mknod(inode, b"new", 0o644, 0, CTX),
        "symlink": lambda: operations.symlink(inode, b"new", b"x", CTX),
        "rename": lambda: operations.rename(inode, b"0", inode, b"1", 0, CTX),
    }


@pytest.fixture
def log(tmp_path: Path) -> str:
    with open_log(str(tmp_path), "a") as data:
        data.create("orders")[0].extend([NewRecord(b"value", key=b"key", timestamp=1_795_266_300_000)])
        data.create("__consumer_offsets")
    return str(tmp_path)


@pytest.mark.parametrize("create", [False, True])
async def test_each_refusal_with_eperm_is_in_the_error_log(nursery: trio.Nursery, log: str, create: bool) -> None:
    """Whatever is not refused here is tried by the tests of its file."""
    directory = LogDirectory.open(log)
    operations = Operations(directory, MountOptions(create=create), nursery)
    if create:
        groups = await operations.lookup(pyfuse3.ROOT_INODE, b"groups", CTX)
        await operations.mkdir(groups.st_ino, b"billing", 0o755, CTX)
    refused, silent = set(), []
    for path in PATHS:
        inode = int(pyfuse3.ROOT_INODE)
        try:
            for name in filter(None, path.split("/")):
                inode = (await operations.lookup(inode, name.encode(), CTX)).st_ino
        except FUSEError:
            continue
        for change in changes(operations, inode):
            before = operations.mount.error_log.count
            try:
                await changes(operations, inode)[change]()
            except FUSEError as error:
                if error.errno != errno.EPERM:
                    continue
                refused.add(change)
                (*_, line) = operations.mount.error_log.text().decode().splitlines()
                if operations.mount.error_log.count == before or " EPERM " not in line or "; " not in line:
                    silent.append((path, change))
    assert silent == []
    assert refused >= set(changes(operations, 0)) - {"rmdir of a group", "unlink of lag", "rmdir of a partition"}
    await operations.accumulators.close()
    directory.close()


async def test_a_read_only_tree_refuses_with_erofs_and_reports_nothing(nursery: trio.Nursery, log: str) -> None:
    directory = LogDirectory.open(log, read_only=True)
    operations = Operations(directory, MountOptions(read_only=True), nursery)
    for change in changes(operations, pyfuse3.ROOT_INODE).values():
        with pytest.raises(FUSEError) as refusal:
            await change()
        assert refusal.value.errno in (errno.EROFS, errno.ENOTDIR, errno.EISDIR)
    assert operations.mount.error_log.count == 0
    directory.close()
