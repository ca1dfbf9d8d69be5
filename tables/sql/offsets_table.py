"""The committed offsets of consumer groups as a table: the records of `__consumer_offsets`, decoded.

group        string
topic        string
partition    int32
offset       int64                  where the group reads on
metadata     string                 what the consumer has stored with it
time         timestamp[us, UTC]     of the commit

The newest commit of each group and partition counts. Commits of a transaction count when it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from offsetfs.storage import AnyLogDirectory, TopicPartition
from offsetfs.storage.coordinators import OFFSETS_TOPIC, CommitChange, CommittedOffset, OffsetsReplay

SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("metadata", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)

_STEP_BYTES = 8 << 20


def committed_offsets(directory: AnyLogDirectory) -> pa.Table:
    """Return the committed offsets of all groups, sorted by group, topic and partition.

    Reads `__consumer_offsets` once. Raises as `LogReader` at damage.
    """
    rows = sorted(_newest_commits(directory))
    columns: list[list[object]] = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in SCHEMA]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _newest_commits(directory: AnyLogDirectory) -> Iterator[tuple[str, str, int, int, str, int]]:
    newest: dict[tuple[str, TopicPartition], tuple[int, CommittedOffset]] = {}
    for name in directory.partitions():
        if name.topic != OFFSETS_TOPIC:
            continue
        log = directory.log(name)
        log.refresh()
        replay = OffsetsReplay(log)
        while True:
            for change in replay.advance(_STEP_BYTES):
                if not isinstance(change, CommitChange):
                    continue
                name_of_commit = change.group, change.partition
                if name_of_commit in newest and newest[name_of_commit][0] > change.at:
                    continue  # a transaction that ended after a later commit
                if change.commit is None:
                    newest.pop(name_of_commit, None)
                else:
                    newest[name_of_commit] = change.at, change.commit
            if replay.is_complete:
                break
    for (group, partition), (_, commit) in newest.items():
        yield group, partition.topic, partition.partition, commit.offset, commit.metadata, commit.timestamp * 1000


class OffsetsTable(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """The committed offsets for DuckDB, which calls `scanner` for each statement that uses them (see `TopicTable`)."""

    def __init__(self, directory: AnyLogDirectory) -> None:
        self._directory = directory

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: object
    ) -> ds.Scanner:
        return ds.dataset(committed_offsets(self._directory)).scanner(columns=columns, filter=filter)
