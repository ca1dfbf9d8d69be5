"""The rows of the table: what is ours, whom it is compared with, and what it should reach. Add one here."""

from __future__ import annotations

import contenders
import logs
import upkeep
from measuring import Contender, Peer, Row, times_as_fast, times_as_long

VALUES = Contender("`cat values`", contenders.values(logs.OWN_BATCH_BYTES))
VALUES_16K = Contender("`cat values`", contenders.values(logs.PRODUCER_BATCH_BYTES))
VALUES_FIRST = Contender("`cat values`", contenders.values(logs.OWN_BATCH_BYTES, is_map_known=False))


def _segments(count: int) -> Contender:
    return Contender(f"{count} × 1 GiB", contenders.sparse_record(count))


ROWS = (
    Row(
        "ingest",
        "Lines of 100 bytes into records: `cat lines >> T-0/append`, until cat has returned",
        unit="s",
        of="lines",
        count=5_000_000,
        count_quick=50_000,
        ours=contenders.APPEND,
        peers=(
            Peer(contenders.SINK, times_as_fast(0.45)),
            Peer(contenders.SINK_1M, times_as_fast(0.45), is_goal=False),
            Peer(contenders.KCAT_PRODUCE, times_as_fast(6)),
        ),
    ),
    Row(
        "values",
        "A whole partition, batches of 1 MiB as an append makes them: `cat T-0/values`",
        unit="s",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=VALUES,
        peers=(
            Peer(contenders.KCAT_CONSUME, times_as_fast(4)),
            Peer(contenders.DATA, times_as_fast(1), is_goal=False),
        ),
    ),
    Row(
        "values-16k",
        "The same in batches of 16 KiB, as producers make them",
        unit="s",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=VALUES_16K,
        peers=(
            Peer(contenders.KCAT_CONSUME, times_as_fast(4)),
            Peer(contenders.DATA, times_as_fast(1), is_goal=False),
        ),
    ),
    Row(
        "values-first",
        "The first `cat T-0/values` after mounting a segment without a view map (1 MiB batches)",
        unit="s",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=VALUES_FIRST,
        peers=(Peer(contenders.KCAT_CONSUME, times_as_fast(4), is_goal=False),),
    ),
    Row(
        "record",
        "Open, read and close a record at random, batches of 16 KiB: `T-0/<offset>`",
        unit="µs",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=contenders.RECORD,
        peers=(Peer(contenders.NUMBERED_FILE, times_as_long(1.5)),),
    ),
    Row(
        "growth",
        "Open, read and close a record at random, in a log of 100 GiB and in smaller ones",
        unit="µs",
        of="segments",
        count=100,
        count_quick=100,
        ours=_segments(100),
        peers=(
            Peer(_segments(1), times_as_long(1.15)),
            Peer(_segments(10), times_as_long(1.15)),
        ),
    ),
    Row(
        "growth-1000",
        "The same in a log of 1000 GiB, of whose segments a mount keeps 2048 open",
        unit="µs",
        of="segments",
        count=1000,
        count_quick=1000,
        ours=_segments(1000),
        peers=(Peer(_segments(1), times_as_long(1), is_goal=False),),
    ),
    Row(
        "mount-segments",
        "`offsetfs mount` of a partition with 10 000 sealed segments, and its `info`",
        unit="s",
        of="segments",
        count=10_000,
        count_quick=100,
        ours=Contender("mount and `info`", contenders.mounting(logs.sealed_segments)),
        limit=1.0,
    ),
    Row(
        "mount-partitions",
        "`offsetfs mount` of 10 000 partitions, and the `info` of one",
        unit="s",
        of="partitions",
        count=10_000,
        count_quick=100,
        ours=Contender("mount and `info`", contenders.mounting(logs.partitions)),
        limit=2.0,
    ),
    Row(
        "memory",
        "Resident memory of the daemon after 20 000 random reads in a log of 1000 GiB",
        unit="MiB",
        of="segments",
        count=1000,
        count_quick=20,
        ours=Contender("VmRSS", contenders.memory),
        limit=100.0,
    ),
    *upkeep.ROWS,
)
