"""Small files whose content is made when they are opened or stat'ed: README, next, info, errors, version.

Files that may change bypass the page cache: each open file has its own snapshot, independent of the size that stat(2)
returned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable

import offsetfs
from offsetfs.fs.attributes import FOREVER_S, NEVER_S
from offsetfs.fs.fuse_types import EntryAttributes
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage import AnyLogDirectory, Log, LogView, maintenance
from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.settings import DEFAULTS

README = b"""\
A Kafka log directory, mounted by offsetfs. Each directory is a partition.

    cat orders-0/42                       the value of the record at offset 42
    cat orders-0/latest orders-0/first    the newest and the oldest record
    cat orders-0/values                   every value, one a line
    tail -f orders-0/values               ... and new ones as they arrive
    cat orders-0/follow                   only new ones; follow@-3: the newest three first
                                          (waits until Ctrl-C; grep prints matches as they arrive;
                                          tail, wc and sort print nothing, because it has no end)
    cat topics/orders/follow              ... of all partitions of a topic
    cat topics/orders/values              a snapshot of all partitions; also records.ndjson
    cat topics/orders/range/-2d..-1d      all partitions in the order of time; also last/, by-time/
    jq .key orders-0/records.ndjson       every record as a line of JSON
    cat orders-0/42.json                  ... or one; also 42.key and 42.headers
    cat orders-0/range/100..200           the values from 100 to 199; times do as well: range/-15m..
    cat orders-0/last/10.ndjson           the newest ten; .ndjson, here and in range: as lines of JSON
    cat orders-0/decoded/values           values by the schemas of _schemas, as JSON; all of these names
                                          are there: decoded/42, decoded/last/10, ... also for topics
    cat schemas/orders-value/latest       a schema of the topic _schemas; also schemas/ids/7
    ls -l orders-0                        sizes and timestamps of the newest records
    cat orders-0/by-time/2026-11-21T13:05 the first record at or after a time (UTC)
    cat orders-0/by-time/-15m             ... or fifteen minutes ago; also -1h30m, -1w
    ls orders-0/by-time/2026/11/21/13     the minutes that have records
    cat orders-0/by-key/customer-17       the latest value of a key; a/b is called a%2Fb, "" is %
    cat orders-0/by-key/%sha256-DIGEST    ... of a key over 80 bytes: `printf %s "$key" | sha256sum`
    cat topics/orders/by-key/customer-17.json  the latest record of a key, whatever its partition
    echo hello >> orders-0/append         a record for each line
    cat x.ndjson >> orders-0/append.ndjson  ... with key, headers, time: {"key":"k","value":"v"}
    cp photo.jpg photos-0/append.raw      one record of a whole file
    cat x.ndjson >> topics/orders/append.ndjson  to the partition of each key, as Kafka sends it
    cat orders-0/start orders-0/next      the first offset, and the offset of the next record
    cat orders-0/info                     everything else, as JSON: high watermark, open transactions, ...
    getfattr -d orders-0/42               key, headers, timestamp, producer, ...
    mkdir payments-0                      a new partition (mount option create)
    rmdir payments-0                      removes it with all in it (mount option delete)
    echo 1234 > orders-0/start            deletes the records below 1234 (mount option delete-records)
    cat groups/billing/orders-0           the offset that a consumer group has committed
    echo 42 > groups/billing/orders-0     commits offset 42; rm deletes the commit
    mkdir groups/new                      a group that has no commits yet (groups: mount option create)
    cat groups/billing/state              its members, or how far a share group is, as JSON
    cat groups/billing/lag                and how far it is behind, partition by partition
    cat .offsetfs/errors                  recent errors with path, cause and remedy
    cat .offsetfs/stats                   totals of reads and writes; .offsetfs/metrics for Prometheus
    cat .offsetfs/config                  the options of the mount, and settings of topics
    echo orders-0 > .offsetfs/flush       on disk when it returns; '*' for all partitions
    echo debug > .offsetfs/log-level      at once; info, warning, error

Records cannot be changed. The errno names the cause: EBADMSG is a wrong checksum, EUCLEAN a malformed
batch, EOPNOTSUPP a format that is not known.
"""

Content = Callable[[], Awaitable[bytes]]


class Text:
    """A small file with an inode of its own. `number` is not used."""

    def __init__(
        self,
        mount: MountContext,
        inode: int,
        content: Content,
        mtime_ns: Callable[[], int] = lambda: 0,
        *,
        fixed: bool = False,
    ) -> None:
        self._mount = mount
        self._inode = inode
        self._content = content
        self._mtime_ns = mtime_ns
        self._is_fixed = fixed

    async def attributes(self, number: int) -> EntryAttributes:
        timeout_s = FOREVER_S if self._is_fixed else NEVER_S
        size = len(await self._content())
        return self._mount.attributes.file(
            self._inode, size, self._mtime_ns(), attr_timeout_s=timeout_s, entry_timeout_s=timeout_s
        )

    async def open(self, number: int, opening: Opening) -> Opened:
        return Opened(await self._content(), direct=not self._is_fixed)


def mount_texts(mount: MountContext) -> dict[int, Text]:
    """Return README, errors and version."""

    async def readme() -> bytes:
        return README

    async def version() -> bytes:
        return f"{offsetfs.__version__}\n".encode()

    async def errors() -> bytes:
        return mount.error_log.text()

    return {
        Kind.README: Text(mount, pack(Kind.README), readme, fixed=True),
        Kind.VERSION: Text(mount, pack(Kind.VERSION), version, fixed=True),
        Kind.ERRORS: Text(mount, pack(Kind.ERRORS), errors),
    }


def partition_texts(mount: MountContext, partition: MountedPartition) -> dict[int, Text]:
    """Return next and info of an open partition."""
    log = partition.log

    async def following() -> bytes:
        return b"%d\n" % await mount.executor.answer(partition.view.end_offset)

    async def info() -> bytes:
        described = await mount.executor.answer(describe, partition.view)
        further = await mount.executor.in_thread(lambda: _in_directory(mount.directory, log))
        return (json.dumps({**described, **further}, indent=2) + "\n").encode()

    def text(fixed: Kind, content: Content) -> Text:
        return Text(mount, partition.inode(fixed), content, lambda: log.modified_ns)

    return {
        Kind.NEXT: text(Kind.NEXT, following),
        Kind.INFO: text(Kind.INFO, info),
    }


def _in_directory(directory: AnyLogDirectory, log: Log) -> dict[str, object]:
    """Return what the directory knows of a log: its compaction, its path, and that of its copy while it moves."""
    holder, future = directory.directory_of(log.partition), directory.future_of(log.partition)
    dirty = maintenance.dirty_range(holder, log)
    return {
        "compaction": None if dirty is None else dirty.fields(),
        "path": os.path.join(holder.path, str(log.partition)),
        "future": future,
    }


def describe(view: LogView, *, nowait: bool = False) -> dict[str, object]:
    """Return the fields of `info`. They describe the whole log, independent of the isolation level.

    The first call walks over the headers of the active segment, unless the log was closed cleanly.
    """
    log = view.log
    if nowait and log.is_bounded:
        raise WouldBlock("the log end is behind what is shown", path=log.path)
    first = log.find_timestamp(0, nowait=nowait)
    newest = (segment.max_timestamp(nowait=nowait)[0] for segment in reversed(list(log.snapshot())))
    latest = next((timestamp for timestamp in newest if timestamp >= 0), None)  # all segments would take a second
    defaults = DEFAULTS.properties()
    return {
        "topic": log.partition.topic,
        "partition": log.partition.partition,
        "log_start_offset": log.log_start_offset,
        "remote_start_offset": log.remote_start_offset,
        "next_offset": log.log_end_offset(),
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset(nowait=nowait),
        "open_transactions": [
            _described(log, *transaction, nowait) for transaction in log.transactions.open(nowait=nowait)
        ],
        "recovery_point": log.recovery_point,
        "leader_epoch": log.leader_epoch,
        "segments": len(log.snapshot()),
        "size_bytes": log.size_bytes,
        "first_timestamp": None if first is None else first[1],
        "latest_timestamp": latest,
        "read_only": log.read_only,
        "failure": None if log.failure is None else str(log.failure),
        "config": {name: value for name, value in log.config.properties().items() if defaults.get(name) != value},
        "damage": [
            {
                "path": place.path,
                "position": place.position,
                "offset": place.offset,
                "reason": place.reason,
                **({} if place.kept is None else {"kept": place.kept or None}),
            }
            for place in log.damage
        ],
    }


def _described(log: Log, producer_id: int, first_offset: int, nowait: bool) -> dict[str, object]:
    """Return the fields of an open transaction in `info`.

    Start and age are from the timestamps of its first batch; null if that batch was deleted or cannot be read.
    """
    started: int | None = None
    try:
        batch = log.batch_at(max(first_offset, log.log_start_offset), nowait=nowait)
        if batch is not None and batch.header.producer_id == producer_id and batch.header.max_timestamp >= 0:
            started = batch.timestamp_of(batch.rows()[1])
    except WouldBlock:
        raise
    except StorageError:
        pass
    return {
        "producer_id": producer_id,
        "start_offset": first_offset,
        "start_timestamp": started,
        "age_ms": None if started is None else max(0, log.clock.now_ms() - started),
    }
