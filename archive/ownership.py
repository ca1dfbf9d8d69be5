"""The owner of an archived partition: the log directory that the newest state names.

Several log directories may have one archive, such as those of the brokers of a cluster, which have replicas of the same
partitions. The segments of replicas begin at different offsets, so two directories that archived a partition in turn
would upload all of it each time, and lose the segments that only the archive has.

    the newest state names                    a run for a log directory
    this directory, or there is no state      continues, also after truncation, or with another topic id
    no directory: an early state              continues; refuses another topic id
    another directory, same topic id          leaves the partition out: it has a replica
    another directory, other or unknown id    refuses the partition: topics are not mixed

Another directory takes a partition over only when it is asked to, and of the same topic only if its log continues what
is archived. An archived segment inside of which that log begins is cut there.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from offsetfs.archive.manifest import PartitionManifest
from offsetfs.archive.object_store import ObjectStore
from offsetfs.storage import Log

SILENT_MS = 48 * 3_600_000
"""The age of the newest state at which a replica with further records of this age reports it. Backups run daily."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition of a log directory, compared with what the archive has of this name."""

    url: str
    """The URL of the partition in the archive."""
    topic_id: str
    """The topic id as Kafka prints it; empty if the partition has none."""
    log: Log

    def is_owner_of(self, previous: PartitionManifest) -> bool:
        """Whether a directory that a state does not name continues it. OSError EEXIST for another topic."""
        if not previous.directory and (not previous.topic_id or self.topic_id in ("", previous.topic_id)):
            return True
        if not self.topic_id or self.topic_id != previous.topic_id:
            raise OSError(errno.EEXIST, self._other_topic(previous), self.url)
        return False

    def _other_topic(self, previous: PartitionManifest) -> str:
        ids = f"topic id {previous.topic_id or 'not known'} there, {self.topic_id or 'not known'} here"
        place = f"from log directory {previous.directory}" if previous.directory else "from a directory not known"
        advice = "archive into another URL, or, if that topic was deleted, run once with --take-over --topic"
        return f"another topic of this name is archived there, {place} ({ids}): {advice}"

    def check_silence(self, previous: PartitionManifest, now_ms: int) -> None:
        """Raise OSError ESTALE if the directory that archives the partition seems to be gone."""
        begin, end = previous.end, self.log.next_offset
        if begin >= end or now_ms - previous.time_ms <= SILENT_MS:
            return
        batch = self.log.batch_at(begin)
        if batch is None or now_ms - batch.header.max_timestamp <= SILENT_MS:
            return
        offsets = f"offsets {begin} to {end - 1} are not in the archive"
        owner = (
            f"which log directory {previous.directory} last changed {(now_ms - previous.time_ms) // 3_600_000} h ago"
        )
        advice = "archive that directory, or, if it is gone, run once with --take-over"
        raise OSError(errno.ESTALE, f"{offsets}, {owner}: {advice}", self.url)

    def check_continues(self, previous: PartitionManifest, store: ObjectStore) -> None:
        """Raise OSError EEXIST unless the log continues a state of the same topic.

        It may begin inside of an archived segment, which is cut there then (`segment_cut`).
        """
        log, end = self.log, previous.end
        if log.next_offset < end:
            reason = f"ends at offset {log.next_offset}, the archive at {end}: take it over when it has caught up"
            raise OSError(errno.EEXIST, reason, log.path)
        first = log.snapshot().first.base_offset
        if first < end:
            self._check_epochs(previous)
            self._check_last_batch(previous, store)

    def _check_epochs(self, previous: PartitionManifest) -> None:
        if not previous.leader_epochs:
            return
        epoch = previous.leader_epochs[-1][0]
        epoch_end = self.log.epochs.end_of(epoch, self.log.next_offset)
        if epoch_end is None or epoch_end[0] != epoch or epoch_end[1] < previous.end:
            reason = f"has no leader epoch {epoch} up to offset {previous.end - 1}"
            raise self._diverged(previous, reason)

    def _check_last_batch(self, previous: PartitionManifest, store: ObjectStore) -> None:
        """Compare the last batch of the archive, as far as one object has it; compaction may have removed it here."""
        segment = previous.segments[-1]
        batch = self.log.batch_at(previous.end - 1) if segment.parts else None
        if batch is None or batch.header.last_offset != previous.end - 1:
            return
        own = self.log.read(batch.base_offset, 1)
        part = segment.parts[-1]
        size = min(len(own), part.size)
        if store.read(part.key, part.size - size, part.size) != own[len(own) - size :]:
            raise self._diverged(previous, f"has other records at offsets {batch.base_offset} to {previous.end - 1}")

    def _diverged(self, previous: PartitionManifest, reason: str) -> OSError:
        text = f"{reason} than those that log directory {previous.directory} has archived: archive into another URL"
        return OSError(errno.EEXIST, text, self.log.path)
