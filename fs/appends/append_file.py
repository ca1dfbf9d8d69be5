"""`append`, `append.ndjson`, `append.raw`: files that accept records. Their size is 0; an open file is a stream.

Those of a topic are distributed over its partitions (`target`). A file of a topic that is opened O_RDWR returns
`partition offset timestamp` of each record. If a partition below the highest is missing, the partition of a key is
unknown, and appends to the topic fail with EINVAL.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from offsetfs.fs.appends.accumulator import Accumulator, Accumulators
from offsetfs.fs.appends.framing import EncodedLines, JsonLines, Lines, Whole
from offsetfs.fs.appends.handles import AppendHandle
from offsetfs.fs.appends.target import AppendTarget, Sticky
from offsetfs.fs.attributes import APPEND_MODE
from offsetfs.fs.files.decoded import MountSchemas
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import MountedPartition, Partitions
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import INTERNAL_TOPICS, TopicPartition

_APPEND_THERE = "append to the source, or to another topic"
_BROKERS_OWN = "a broker keeps its own state there, records are refused"

PREFERRED_WRITE_BYTES = 1 << 20
"""st_blksize: it makes cat write a megabyte at a time, with an eighth of the requests."""

APPEND_FILES: dict[Kind, Callable[[], Lines]] = {
    Kind.APPEND: Lines,
    Kind.APPEND_NDJSON: JsonLines,
    Kind.APPEND_RAW: Whole,
}
"""The framing of each kind."""

_FRAMING_OF = {kind.file_name: framing for kind, framing in APPEND_FILES.items()}
_ENCODING = frozenset({Kind.DECODED_APPEND, Kind.TOPIC_DECODED_APPEND})


class AppendFile:
    """A file of one partition that accepts records. `number` is not used."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        accumulators: Accumulators,
        which: Kind,
        schemas: MountSchemas,
    ) -> None:
        self._schemas = schemas
        self._mount = mount
        self._partition = partition
        self._accumulators = accumulators
        self._which = which
        self._path = which.spec.paths[0].replace("<partition>", str(partition.name))

    async def attributes(self, number: int) -> EntryAttributes:
        inode = self._partition.inode(self._which)
        entry = self._mount.attributes.file(inode, 0, self._partition.log.modified_ns, mode=APPEND_MODE)
        entry.st_blksize = PREFERRED_WRITE_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open the file. For writing: EROFS if the log is read-only, EPERM for an internal topic.

        A log whose recovery failed is recovered first; errors as of recovery, such as ENOSPC.

        Whether a compacted topic requires keys is checked by `write`, because settings may change while it is open.
        """
        if opening.writes:
            await self._partition.recover()
            self.check_writable(number)
            if not opening.is_nonblocking:
                await self._accumulators.context.files.wait_before_open((self._partition.name,))
        target = AppendTarget([self._accumulators.of(self._partition.name)])
        framing = await _framing(
            self._mount, self._schemas, self._which, self._which.file_name, self._partition.name.topic
        )
        handle = AppendHandle(target, opening.flags, framing, self._path, self._lost, self._mount.waiting.poll_space)
        # Acknowledgments are a stream: a shell reads ahead and seeks back in a file that allows seeks.
        return Opened(handle, direct=True, is_stream=handle.wants_offsets)

    def check_writable(self, number: int) -> None:
        """Refuse internal topics too: a broker does not start if it cannot parse a record of its own state."""
        log = self._partition.log
        if self._mount.is_read_only or (log.read_only and log.unrecovered is None):
            raise FUSEError(errno.EROFS)
        if log.is_mirrored:
            cause = f"the topic is mirrored from {log.context.mirrored_from}"
            self._mount.error_log.report(Fault(errno.EROFS, "open", self._path, cause, _APPEND_THERE))
            raise FUSEError(errno.EROFS)
        name = self._partition.name
        if name.topic in INTERNAL_TOPICS:
            raise _internal_refusal(self._mount, self._path)

    def _lost(self, error: OSError) -> None:
        self._mount.error_log.add(error, "write", self._path)


class TopicAppends:
    """`topics/<topic>/append[.ndjson]`, or that of `decoded`.

    `number`: that of the topic × the number of names of the kind, plus the index of the name.
    """

    def __init__(
        self,
        mount: MountContext,
        partitions: Partitions,
        accumulators: Accumulators,
        which: Kind,
        schemas: MountSchemas,
        topic_at: Callable[[int], str],
        complete: Callable[[str], list[TopicPartition] | None],
    ) -> None:
        """`complete` returns the partitions of a topic from 0 on; None if some are missing, or all."""
        self._mount = mount
        self._partitions = partitions
        self._accumulators = accumulators
        self._which = which
        self._schemas = schemas
        self._topic_at = topic_at
        self._complete = complete
        self._sticky: dict[str, Sticky] = {}

    async def attributes(self, number: int) -> EntryAttributes:
        entry = self._mount.attributes.file(pack(self._which, 0, number), 0, 0, mode=APPEND_MODE)
        entry.st_blksize = PREFERRED_WRITE_BYTES
        return entry

    def _topic(self, number: int) -> str:
        return self._topic_at(number // len(self._which.spec.paths))

    def _path(self, number: int) -> str:
        paths = self._which.spec.paths
        return paths[number % len(paths)].replace("<topic>", self._topic(number))

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open the file and the logs of all partitions. EROFS, EPERM, or EINVAL if partitions are missing."""
        if not opening.writes:
            return Opened(b"", direct=True)
        self.check_writable(number)
        topic = self._topic(number)
        path = self._path(number)
        accumulators = await self._opened(topic, path)
        if not opening.is_nonblocking:
            await self._accumulators.context.files.wait_before_open(
                [accumulator.partition for accumulator in accumulators]
            )
        target = AppendTarget(accumulators, self._sticky_of(topic))
        handle = AppendHandle(
            target,
            opening.flags,
            await _framing(self._mount, self._schemas, self._which, path.rpartition("/")[2].encode(), topic),
            path,
            lambda error: self._lost(error, path),
            self._mount.waiting.poll_space,
        )
        return Opened(handle, direct=True, is_stream=handle.wants_offsets)

    def is_writable(self, number: int) -> bool:
        """Whether records can be appended: not on a read-only mount, and not to an internal topic."""
        return not self._mount.is_read_only and self._topic(number) not in INTERNAL_TOPICS

    def check_writable(self, number: int) -> None:
        """Raise EROFS, or EPERM for an internal topic."""
        if not self.is_writable(number):
            raise _internal_refusal(self._mount, self._path(number))

    async def _opened(self, topic: str, path: str) -> list[Accumulator]:
        names = self._complete(topic)
        if names is None:
            raise OSError(
                errno.EINVAL, "partitions of the topic are missing, so the partition of a key is unknown", path
            )
        for name in names:
            partition = self._partitions.of(name)
            await partition.open()
            await partition.recover()
        return [self._accumulators.of(name) for name in names]

    def _sticky_of(self, topic: str) -> Sticky:
        return self._sticky.setdefault(topic, Sticky())

    def _lost(self, error: OSError, path: str) -> None:
        self._mount.error_log.add(error, "write", path)


async def _framing(mount: MountContext, schemas: MountSchemas, kind: Kind, name: bytes, topic: str) -> Lines:
    """Return the framing of a file of this name. Values of `decoded` are encoded by the schemas that are there now."""
    if kind in _ENCODING:
        return EncodedLines(await mount.executor.in_thread(lambda: schemas.encoder(topic)))
    return _FRAMING_OF[name]()


def _internal_refusal(mount: MountContext, path: str) -> FUSEError:
    """Return the error for an append to an internal topic, and record it; EROFS on a read-only mount."""
    return mount.refusals.other_way("open", path, _BROKERS_OWN, "write to another topic")
