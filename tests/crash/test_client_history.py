"""The check of histories finds each anomaly, and nothing in a history that is as it has to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from client_history import (
    ClientHistory,
    Commit,
    FullRead,
    Kind,
    LookUp,
    Outcome,
    Partition,
    Read,
    Start,
    Write,
    anomalies,
)

pytestmark = pytest.mark.unit

P, Q = Partition("orders", 0), Partition("orders", 1)
DONE, NOT_DONE, UNKNOWN = Outcome.DONE, Outcome.NOT_DONE, Outcome.UNKNOWN


def good() -> ClientHistory:
    """Four records, two of a transaction that was committed and one of one that was aborted; all are read."""
    history = ClientHistory(transactions={"tx-1": DONE, "tx-2": NOT_DONE, "tx-3": UNKNOWN})
    history.writes = [
        Write("a", 1, P, b"a1", 1, 2, DONE, 0),
        Write("a", 2, P, b"a2", 3, 4, DONE, 1),
        Write("t", 1, P, b"t1", 5, 6, DONE, 2, "tx-1", source=(P, 0)),
        Write("t", 2, Q, b"t2", 5, 6, DONE, 0, "tx-1"),
        Write("t", 3, P, b"t3", 7, 8, DONE, 4, "tx-2", source=(P, 1)),
        Write("t", 4, P, b"t4", 9, 10, DONE, 6, "tx-3"),
        Write("t", 5, Q, b"t5", 9, 10, DONE, 2, "tx-3"),
        Write("a", 3, P, b"a3", 11),
    ]
    seen = [(P, 0, b"a1"), (P, 1, b"a2"), (P, 2, b"t1"), (Q, 0, b"t2"), (P, 4, b"t3"), (P, 6, b"t4"), (Q, 2, b"t5")]
    history.reads = [Read("all", *each) for each in seen]
    history.reads += [Read("committed", *each, is_committed=True) for each in seen if each[2][:2] in (b"a1", b"a2")]
    history.reads += [Read("committed", *each, is_committed=True) for each in seen[2:4]]
    history.full_reads = [
        FullRead(session, partition, end, 20, is_committed)
        for session, is_committed in (("all", False), ("committed", True))
        for partition, end in ((P, 8), (Q, 4))
    ]
    history.starts = [Start("all", P, 0), Start("all", Q, 0), Start("committed", P, 0)]
    history.commits = [Commit("g", P, 2, 12, 13, DONE), Commit("g", P, 4, 15, 16, DONE), Commit("g", P, 3, 17)]
    history.look_ups = [LookUp("g", P, 2, 13, 14), LookUp("g", P, 4, 18, 19)]
    return history


def test_a_history_that_is_as_it_has_to_be() -> None:
    assert anomalies(good()) == []


def unread(*values: bytes, committed_only: bool = False) -> Callable[[ClientHistory], None]:
    def change(history: ClientHistory) -> None:
        history.reads = [
            each for each in history.reads if each.value not in values or (committed_only and not each.is_committed)
        ]

    return change


def read_also(*reads: Read) -> Callable[[ClientHistory], None]:
    return lambda history: history.reads.extend(reads)


def swapped(history: ClientHistory) -> None:
    """Both records of `a` in the other order, everywhere."""
    other = {b"a1": 1, b"a2": 0}
    history.writes = [replace(each, offset=other.get(each.value, each.offset)) for each in history.writes]
    history.reads = [replace(each, offset=other.get(each.value, each.offset)) for each in history.reads]
    history.reads.sort(key=lambda each: (each.session, each.partition, each.offset))


def looked_up(offset: int, moment: int) -> Callable[[ClientHistory], None]:
    return lambda history: history.look_ups.append(LookUp("g", P, offset, moment, moment + 1))


def committed(offset: int, moment: int) -> Callable[[ClientHistory], None]:
    return lambda history: history.commits.append(Commit("g", P, offset, moment, moment + 1, DONE))


def without_answered_offsets(history: ClientHistory) -> None:
    history.writes = [replace(each, offset=-1) for each in history.writes]
    unread(b"a2")(history)


def ended_early(history: ClientHistory) -> None:
    """The end of the partition went back behind what was acknowledged."""
    history.full_reads = [replace(each, end=1) for each in history.full_reads]
    unread(b"a2", b"t1", b"t3", b"t4")(history)


def made_twice(history: ClientHistory) -> None:
    history.transactions["tx-4"] = DONE
    history.writes.append(Write("t", 6, Q, b"t6", 12, 13, DONE, 3, "tx-4", source=(P, 0)))
    history.reads += [Read("all", Q, 3, b"t6"), Read("committed", Q, 3, b"t6", is_committed=True)]


def acknowledged_elsewhere(history: ClientHistory) -> None:
    history.writes[0] = replace(history.writes[0], offset=1)


def refused(history: ClientHistory) -> None:
    history.writes[1] = replace(history.writes[1], outcome=NOT_DONE, offset=-1)


def begun_behind(history: ClientHistory) -> None:
    """The first record of a session is not the one at its position."""
    history.starts.append(Start("y", P, 0))
    history.reads.append(Read("y", P, 1, b"a2"))


CASES: list[tuple[Kind, Callable[[ClientHistory], None]]] = [
    (Kind.LOST_WRITE, unread(b"a2")),
    (Kind.LOST_WRITE, unread(b"a2", committed_only=True)),
    (Kind.LOST_WRITE, without_answered_offsets),
    (Kind.LOST_WRITE, ended_early),
    (Kind.LOST_WRITE, unread(b"t1", b"t2", committed_only=True)),
    (Kind.DUPLICATE, read_also(Read("x", P, 8, b"a1"))),
    (Kind.DUPLICATE, made_twice),
    (Kind.REORDERING, swapped),
    (Kind.ABORTED_READ, read_also(Read("x", P, 4, b"t3", is_committed=True))),
    (Kind.REFUSED_READ, refused),
    (Kind.PARTIAL_TRANSACTION, unread(b"t2", committed_only=True)),
    (Kind.PARTIAL_TRANSACTION, read_also(Read("x", Q, 2, b"t5", is_committed=True))),
    (Kind.COMMIT_WENT_BACK, looked_up(3, 20)),
    (Kind.COMMIT_WENT_BACK, looked_up(-1, 20)),
    (Kind.COMMIT_WENT_BACK, committed(3, 20)),
    (Kind.POLL_SKIP, read_also(Read("y", P, 0, b"a1"), Read("y", P, 2, b"t1"))),
    (Kind.POLL_SKIP, begun_behind),
    (Kind.NON_MONOTONIC_POLL, read_also(Read("y", P, 1, b"a2"), Read("y", P, 0, b"a1"))),
    (Kind.NON_MONOTONIC_POLL, read_also(Read("y", P, 1, b"a2"), Read("y", P, 1, b"a2"))),
    (Kind.TWO_VALUES, read_also(Read("x", P, 1, b"a3"))),
    (Kind.TWO_VALUES, acknowledged_elsewhere),
    (Kind.FOREIGN_RECORD, read_also(Read("x", P, 9, b"not written"))),
    (Kind.FOREIGN_RECORD, read_also(Read("x", Q, 9, b"a3"))),
]


@pytest.mark.parametrize(("kind", "change"), CASES)
def test_each_anomaly_is_found(kind: Kind, change: Callable[[ClientHistory], None]) -> None:
    history = good()
    change(history)
    assert kind in {each.kind for each in anomalies(history)}, anomalies(history)


def test_there_is_a_history_with_each_anomaly() -> None:
    assert {kind for kind, _ in CASES} == set(Kind)


def test_what_is_no_anomaly() -> None:
    history = good()
    history.writes += [
        Write("plain", 1, Q, b"p1", 24, 25, DONE, 4, is_idempotent=False),
        Write("lost without an answer", 1, Q, b"u1", 1),
        Write("behind what was read", 1, Q, b"late", 30, 31, DONE, 9),
    ]
    history.reads += [Read("x", Q, 4, b"p1"), Read("x", Q, 5, b"p1")]  # a plain producer sends again
    history.commits.append(Commit("g", P, 1, 12, 30, DONE))  # at the same time as the others
    history.commits.append(Commit("h", P, 1, 40, 41, DONE))  # another group
    assert [each.kind for each in anomalies(history)] == []
