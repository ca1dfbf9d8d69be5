"""The events of a mount, and what its context connects to them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import trio

from offsetfs.fs.mount_context import mount_context
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.error_log import ErrorLog, Refusals
from offsetfs.fs.requests.events import MountEvent
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch, StorageError
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)


def test_handlers_are_called_in_the_order_of_their_subscription() -> None:
    event: MountEvent[[int]] = MountEvent()
    calls: list[tuple[str, int]] = []
    event.publish(1)  # without a handler: no effect
    event.subscribe(lambda number: calls.append(("first", number)))
    event.subscribe(lambda number: calls.append(("second", number)))
    event.publish(2)
    assert calls == [("first", 2), ("second", 2)]


async def test_a_damaged_place_is_published_once_and_each_read_of_it_is_recorded(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    mount = mount_context(directory, MountOptions(), nursery)
    found: list[StorageError] = []
    mount.events.damage_found.subscribe(found.append)
    assert not mount.damage.has_occurred
    for _ in range(2):
        mount.damage.report(CorruptBatch("checksum", path=f"{log.path}/{0:020d}.log", position=7))
    assert (len(found), mount.damage.has_occurred, mount.error_log.count) == (1, True, 2)
    directory.close()


def test_a_missing_option_is_recorded_unless_the_mount_is_read_only() -> None:
    error_log = ErrorLog()
    read_only = Refusals(error_log, is_read_only=True).missing_option("create", "mkdir", "orders-1")
    assert (read_only.errno, error_log.text()) == (errno.EROFS, b"")
    refused = Refusals(error_log, is_read_only=False).missing_option("create", "mkdir", "orders-1")
    assert refused.errno == errno.EPERM and b"use -o create" in error_log.text()
