"""The result of a comparison as a report: a finding for each partition that differs, tables of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from offsetfs.answers.diff.directories import BY_CONTENT, BY_KEY, DiffOptions, PartitionDiff, ShownRecord
from offsetfs.answers.diff.logs import LogDiff, Missing
from offsetfs.answers.diff.states import state_findings
from offsetfs.answers.diff.streams import OrderlessDiff
from offsetfs.answers.report import Diagnosis, Fact, Measure, Report, Severity, Table, TableColumn, Value
from offsetfs.storage.errors import counted

EQUAL = "equal"
EQUAL_RECORDS = "equal records, other batches"
NO_KEYS = "no keys"
COMPACTED = "compacted"
PARTED = "parted"
MISSING = "records missing"
UNREADABLE = "unreadable"
ONLY_A, ONLY_B = "only in A", "only in B"

_COLUMNS = (
    TableColumn("partition", "partition"),
    TableColumn("result", "result"),
    TableColumn("start_a", "A from", Measure.OFFSET),
    TableColumn("end_a", "to", Measure.OFFSET),
    TableColumn("start_b", "B from", Measure.OFFSET),
    TableColumn("end_b", "to", Measure.OFFSET),
    TableColumn("equal_records", "equal", Measure.COUNT),
    TableColumn("changed", "changed", Measure.COUNT),
    TableColumn("missing_a", "not in A", Measure.COUNT),
    TableColumn("missing_b", "not in B", Measure.COUNT),
)

_PARTING_COLUMNS = (
    TableColumn("partition", "partition"),
    TableColumn("offset", "offset", Measure.OFFSET),
    TableColumn("side", "in"),
    TableColumn("leader_epoch", "epoch", Measure.OFFSET),
    TableColumn("timestamp", "time", Measure.TIME),
    TableColumn("record", "record"),
)

_QUICK_NOTE = (
    "--quick compared the headers of batches, with the checksums that are stored there; their records were not read "
    "where headers are equal"
)
_FULL_NOTE = "equal batches were compared byte by byte, but for the leader epoch"


def result_of(pair: PartitionDiff) -> str:
    """Return the result for a partition in a few words."""
    if pair.orderless is not None:
        return _orderless_result(pair.orderless)
    if pair.found is None:
        return UNREADABLE if pair.error else ONLY_A if pair.is_in_a else ONLY_B
    found = pair.found
    if found.changed or (found.missing_a.lost and found.missing_b.lost):
        return PARTED
    if found.missing_a.lost or found.missing_b.lost:
        return MISSING
    if found.end_a != found.end_b:
        return f"{'A' if found.end_a < found.end_b else 'B'} is behind"
    if found.missing_a.records or found.missing_b.records:
        return COMPACTED
    if found.start_a != found.start_b:
        return f"{'A' if found.start_a > found.start_b else 'B'} starts later"
    return EQUAL_RECORDS if found.other_batches else EQUAL


def _has_no_keys(found: OrderlessDiff) -> bool:
    """Whether a comparison by key had nothing to compare, though there are records."""
    return bool(found.without_key) and not (found.equal or found.changed or found.only_a or found.only_b)


def _orderless_result(found: OrderlessDiff) -> str:
    if found.changed or found.only_a or found.only_b:
        return PARTED
    if found.behind_a or found.behind_b:
        return "A is behind" if found.behind_a else "B is behind"
    if found.before_a or found.before_b:
        return "B starts later" if found.before_a else "A starts later"
    return NO_KEYS if _has_no_keys(found) else EQUAL


def diff_report(
    pairs: Sequence[PartitionDiff],
    subject: str,
    options: DiffOptions,
    *,
    bytes_done: int,
    common_only: bool,
    states: Sequence[Table] = (),
    unseen: Sequence[str] = (),
) -> Report:
    """Return the report. `common_only`: what only one side has is no more than a notice. `states`: of
    `state_tables`; `unseen`: what they lack.
    """
    softened = Severity.NOTICE if common_only else Severity.WARNING
    findings = [finding for pair in pairs for finding in _findings(pair, softened)]
    findings += state_findings(states)
    results = Counter(map(result_of, pairs))
    rows = sorted((_row(pair) for pair in pairs), key=lambda row: row[1] in (EQUAL, EQUAL_RECORDS))
    facts = (
        Fact("partitions", "partitions", len(pairs), Measure.COUNT),
        Fact("equal", "equal", results[EQUAL] + results[EQUAL_RECORDS], Measure.COUNT),
        Fact("equal_records", "equal records", _total(rows, "equal_records"), Measure.COUNT),
        Fact("changed", "changed records", _total(rows, "changed"), Measure.COUNT),
        Fact("missing_a", "not in A", _total(rows, "missing_a"), Measure.COUNT),
        Fact("missing_b", "not in B", _total(rows, "missing_b"), Measure.COUNT),
        Fact("bytes", "bytes compared", bytes_done, Measure.BYTES),
    )
    partings = [row for pair in pairs for row in _parting_rows(pair)]
    return Report(
        "diff",
        subject,
        facts=facts,
        tables=(
            Table("partings", "First difference", _PARTING_COLUMNS, partings),
            *states,
            Table("partitions", "Partitions", _COLUMNS, rows),
        ),
        findings=findings,
        unseen=[*unseen, *(f"{pair.partition}: {reason}" for pair in pairs for reason in _unseen(pair))],
        notes=[_note(options)] if pairs else [],
    )


def _total(rows: Sequence[Sequence[Value]], key: str) -> int:
    at = next(number for number, column in enumerate(_COLUMNS) if column.key == key)
    return sum(value for row in rows if isinstance(value := row[at], int))


def _note(options: DiffOptions) -> str:
    if options.by == BY_KEY:
        return "the latest committed value and headers of each key were compared, not its time; numbers are of keys"
    if options.by == BY_CONTENT:
        return "committed records were compared in their order, whatever their offsets"
    return _QUICK_NOTE if options.is_quick else _FULL_NOTE


def _row(pair: PartitionDiff) -> list[Value]:
    head: list[Value] = [str(pair.partition), result_of(pair)]
    found, other = pair.found, pair.orderless
    if other is not None:
        missing = other.only_b + other.before_b + other.behind_a, other.only_a + other.before_a + other.behind_b
        return [*head, None, None, None, None, other.equal, other.changed, *missing]
    if found is None:
        return head + [None] * (len(_COLUMNS) - len(head))
    offsets = found.start_a, found.end_a, found.start_b, found.end_b
    return [*head, *offsets, found.equal_records, found.changed, found.missing_a.records, found.missing_b.records]


def _parting_rows(pair: PartitionDiff) -> Iterator[list[Value]]:
    if pair.at_a is None and pair.at_b is None:
        return
    if pair.orderless is not None:
        offsets = pair.orderless.first_a, pair.orderless.first_b
    else:
        offsets = (None if pair.found is None else pair.found.parted_at,) * 2
    for side, offset, shown in (("A", offsets[0], pair.at_a), ("B", offsets[1], pair.at_b)):
        record = shown or ShownRecord(None)
        text = "no such record" if record.text is None else record.text
        yield [str(pair.partition), offset, side, record.leader_epoch, record.timestamp, text]


def _unseen(pair: PartitionDiff) -> Iterator[str]:
    if pair.orderless is not None:
        yield from pair.orderless.lost
        if pair.orderless.without_key and not _has_no_keys(pair.orderless):
            yield f"{counted(pair.orderless.without_key, 'record')} without a key, which are not compared by key"
    if pair.found is None:
        if pair.error:
            yield pair.error
        return
    yield from pair.found.lost
    beyond = pair.found.missing_a.beyond + pair.found.missing_b.beyond
    if beyond:
        yield f"whether later records of their keys supersede {counted(beyond, 'missing record')}: too many keys"


# --- findings --------------------------------------------------------------------------------------------------------


def _findings(pair: PartitionDiff, softened: Severity) -> Iterator[Diagnosis]:
    place = str(pair.partition)
    if pair.error:
        yield Diagnosis(
            Severity.DAMAGE, "unreadable", place, pair.error, "the partition was not compared", "offsetfs verify"
        )
    elif pair.orderless is not None:
        yield from _orderless_findings(place, pair.orderless, softened)
    elif pair.found is None:
        side, other = ("A", "B") if pair.is_in_a else ("B", "A")
        yield Diagnosis(softened, "only-in-one", place, f"is only in {side}", f"{other} has none of its records")
    else:
        yield from _log_findings(place, pair, pair.found, softened)


def _orderless_findings(place: str, found: OrderlessDiff, softened: Severity) -> Iterator[Diagnosis]:
    yield from _damage(place, found.damage)
    if _has_no_keys(found):
        evidence = f"{counted(found.without_key, 'record')} without a key, and no key with a value"
        yield Diagnosis(
            Severity.WARNING, "no-keys", place, evidence, "nothing was compared", "leave out --by, or give --by content"
        )
    if found.changed or found.only_a or found.only_b:
        counts = f"{found.changed} with other contents, {found.only_a} only in A, {found.only_b} only in B"
        evidence = f"{counts}, {found.equal} equal"
        yield Diagnosis(Severity.DAMAGE, "parted", place, evidence, "consumers of A and of B see other data")
    for side, count in (("A", found.behind_a), ("B", found.behind_b)):
        if count:
            evidence = f"{side} lacks the last {counted(count, 'record')}"
            yield Diagnosis(softened, "behind", place, evidence, f"{side} lacks the newest records")
    for side, count in (("A", found.before_b), ("B", found.before_a)):
        if count:
            evidence = f"{side} lacks the first {counted(count, 'record')}"
            yield Diagnosis(softened, "starts-later", place, evidence, "retention removed them, or the copy is younger")


def _damage(place: str, sentences: Sequence[str]) -> Iterator[Diagnosis]:
    consequence = "its records were left out, as if they were missing"
    for evidence in sentences:
        yield Diagnosis(Severity.DAMAGE, "damage", place, evidence, consequence, "offsetfs verify")


def _log_findings(place: str, pair: PartitionDiff, found: LogDiff, softened: Severity) -> Iterator[Diagnosis]:
    yield from _damage(place, found.damage)
    if found.changed:
        epochs = [shown.leader_epoch for shown in (pair.at_a, pair.at_b) if shown and shown.leader_epoch is not None]
        consequence = "readers of A and of B get other records at the same offsets"
        if len(set(epochs)) > 1:
            consequence += f"; different leaders wrote them, in epochs {epochs[0]} and {epochs[1]}"
        evidence = f"parted at offset {found.parted_at}: {counted(found.changed, 'record')} with other contents"
        yield Diagnosis(Severity.DAMAGE, "parted", place, evidence, consequence)
    for side, other, missing in (("A", "B", found.missing_a), ("B", "A", found.missing_b)):
        if missing.records:
            yield _missing(place, side, other, missing, softened)
    yield from _bounds(place, found, softened)
    if found.other_batches:
        evidence = f"{counted(found.other_batches, 'batch', 'batches')} with equal records in other bytes"
        yield Diagnosis(
            Severity.NOTICE,
            "other-batches",
            place,
            evidence,
            "another codec or other batches; readers see no difference",
        )
    if found.other_epochs:
        count = counted(found.other_epochs, "batch", "batches")
        evidence = f"{count} with another leader epoch, from offset {found.other_epoch_offset} on"
        yield Diagnosis(
            Severity.NOTICE, "other-epochs", place, evidence, "the epoch is no part of the checksum; the rest is equal"
        )


def _missing(place: str, side: str, other: str, missing: Missing, softened: Severity) -> Diagnosis:
    if missing.lost:
        evidence = (
            f"{side} lacks {counted(missing.lost, 'record')} that {other} has, from offset {missing.first_offset} on"
        )
        if missing.superseded:
            evidence += f", and {missing.superseded} more that later records of the same keys supersede"
        return Diagnosis(
            Severity.DAMAGE,
            "records-missing",
            place,
            evidence,
            "compaction does not explain it: no later record has the key",
        )
    evidence = f"{side} lacks {counted(missing.records, 'record')} that {other} has"
    return Diagnosis(
        softened, "compacted", place, evidence,
        "each has a later record of its key, or is a tombstone or a marker: compaction removes them",
    )  # fmt: skip


def _bounds(place: str, found: LogDiff, softened: Severity) -> Iterator[Diagnosis]:
    if found.end_a != found.end_b:
        side, other = ("A", "B") if found.end_a < found.end_b else ("B", "A")
        count = abs(found.end_a - found.end_b)
        evidence = f"{side} ends at offset {min(found.end_a, found.end_b)}, {counted(count, 'offset')} before {other}"
        yield Diagnosis(softened, "behind", place, evidence, f"{side} lacks the newest records")
    if found.start_a != found.start_b:
        side = "A" if found.start_a > found.start_b else "B"
        evidence = (
            f"{side} starts at offset {found.start}, {counted(abs(found.start_a - found.start_b), 'offset')} later"
        )
        yield Diagnosis(
            softened,
            "starts-later",
            place,
            evidence,
            "retention or a deletion of records removed the oldest ones there",
        )
