"""The replay of one partition of `__consumer_offsets` for a group coordinator."""

from __future__ import annotations

from offsetfs.storage.coordinators.changes_replay import ChangesReplay
from offsetfs.storage.coordinators.group_records import Change, CommitChange, change_of
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log


class OffsetsReplay(ChangesReplay[Change]):
    """What the records of one partition change, and the commits of open transactions in it."""

    def __init__(self, log: Log) -> None:
        super().__init__(log, change_of)

    def pending_commits(self) -> set[tuple[str, TopicPartition]]:
        """Return groups and partitions that open transactions commit offsets for."""
        found = set()
        for record in self.pending():
            try:
                change = change_of(record)
            except ValueError:
                continue
            if isinstance(change, CommitChange):
                found.add((change.group, change.partition))
        return found
