"""`append`, `append.ndjson`, `append.raw`: files that accept records. Their size is 0; an open file is a stream."""

from __future__ import annotations

import errno
from collections.abc import Callable

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.framing import EncodedLines, JsonLines, Lines, Whole
from offsetfs.fs.appends.handles import AppendHandle
from offsetfs.fs.appends.target import AppendTarget
from offsetfs.fs.attributes import APPEND_MODE
from offsetfs.fs.files.decoded import MountSchemas
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import MountedPartition
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import INTERNAL_TOPICS

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


class AppendFile:
    """A file of one partition that accepts records. `number` is not used."""

    def __init__(
        self, mount: MountContext, partition: MountedPartition, accumulators: Accumulators, which: Kind
    ) -> None:
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
        handle = AppendHandle(
            target, opening.flags, await self._framing(), self._path, self._lost, self._mount.waiting.poll_space
        )
        # Acknowledgments are a stream: a shell reads ahead and seeks back in a file that allows seeks.
        return Opened(handle, direct=True, is_stream=handle.wants_offsets)

    async def _framing(self) -> Lines:
        return APPEND_FILES[self._which]()

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
            raise internal_refusal(self._mount, self._path)

    def _lost(self, error: OSError) -> None:
        self._mount.error_log.add(error, "write", self._path)


class DecodedAppend(AppendFile):
    """`decoded/append.ndjson`, whose values are encoded by the schemas of the directory."""

    def __init__(
        self, mount: MountContext, partition: MountedPartition, accumulators: Accumulators, schemas: MountSchemas
    ) -> None:
        super().__init__(mount, partition, accumulators, Kind.DECODED_APPEND)
        self._schemas = schemas

    async def _framing(self) -> Lines:
        return await encoding_framing(self._mount, self._schemas, self._partition.name.topic)


async def encoding_framing(mount: MountContext, schemas: MountSchemas, topic: str) -> EncodedLines:
    """Return the framing of a file whose values are encoded, by the schemas that are there now."""
    encoder = await mount.executor.in_thread(lambda: schemas.encoder(topic))
    return EncodedLines(encoder)


def internal_refusal(mount: MountContext, path: str) -> FUSEError:
    """Return the error for an append to an internal topic, and record it; EROFS on a read-only mount."""
    return mount.refusals.other_way("open", path, _BROKERS_OWN, "write to another topic")
