"""The report of `offsetfs stats`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import fmean

from offsetfs.answers.report import (
    Diagnosis,
    Fact,
    Histogram,
    Measure,
    Report,
    Severity,
    Table,
    TableColumn,
    Value,
)
from offsetfs.answers.stats.codec_samples import CodecSample, bytes_saved, sample_codecs
from offsetfs.answers.stats.due_tasks import DueTasks, due_tasks
from offsetfs.answers.stats.header_facts import HeaderFacts
from offsetfs.answers.stats.partition_scan import OnBytes, PartitionFacts, scan_partitions
from offsetfs.answers.stats.value_facts import ValueFacts
from offsetfs.answers.stats.value_tables import value_facts, value_histograms, value_notes, value_tables
from offsetfs.storage import LogDirectories, TopicPartition
from offsetfs.storage.directory import left_out_message
from offsetfs.storage.errors import counted
from offsetfs.storage.records import CODECS

RECOMPRESSED_TOPICS_MAX = 10
"""The largest topics, of which a sample is compressed with all codecs."""

PRODUCERS_SHOWN_MAX = 100
GAPS_SHOWN_MAX = 20

_COUNT, _BYTES, _OFFSET, _TIME = Measure.COUNT, Measure.BYTES, Measure.OFFSET, Measure.TIME
_SHARE, _RATIO, _SECONDS = Measure.SHARE, Measure.RATIO, Measure.SECONDS


def stats_report(
    directory: LogDirectories,
    partitions: Sequence[TopicPartition],
    names: Sequence[str] = (),
    *,
    reads_values: bool = False,
    on_bytes: OnBytes = lambda done, total: None,
) -> tuple[Report, bool]:
    """Return the report on partitions, sorted by topic; and whether all of them could be read.

    `names`: the topics and partitions that were asked for; without names all.
    """
    scan = scan_partitions(directory, partitions, reads_values=reads_values, on_bytes=on_bytes)
    found = scan.partitions
    topics = [TopicFacts(topic, list(group)) for topic, group in groupby(found, lambda each: each.partition.topic)]
    largest = sorted(topics, key=lambda each: -each.headers.bytes)[:RECOMPRESSED_TOPICS_MAX]
    for topic in topics:
        topic.sample(directory, recompresses=topic in largest)
        topic.values = scan.topics.get(topic.topic)
    due = due_tasks(directory, partitions)
    report = Report(
        verb="stats",
        subject=" ".join((directory.path, *names)),
        facts=[*_facts(topics, found, due, reads_values=reads_values), *value_facts(scan.total)],
        tables=[
            _topics_table(topics),
            _partitions_table(found),
            *value_tables(scan),
            _codecs_table(topics),
            _other_codecs_table(largest),
            _producers_table(topics),
            _offset_gaps_table(found),
            _time_gaps_table(found),
            _due_table(due),
        ],
        histograms=[*_histograms(topics), *value_histograms(scan.total)],
        findings=list(_findings(found)),
        unseen=list(_unseen(directory, found, due, reads_values=reads_values)),
        notes=[*_notes(topics), *value_notes(scan.total)],
    )
    return report, all(each.failure is None for each in found) and not directory.failures


class TopicFacts:
    """The partitions of one topic, and their sum."""

    def __init__(self, topic: str, partitions: list[PartitionFacts]) -> None:
        self.topic = topic
        self.partitions = partitions
        self.headers = HeaderFacts()
        for each in partitions:
            self.headers.merge(each.headers)
        self.log_bytes = sum(each.log_bytes for each in partitions)
        self.values: ValueFacts | None = None
        self.samples: dict[str, CodecSample] = {}

    def sample(self, directory: LogDirectories, *, recompresses: bool) -> None:
        """Read a sample of the batches of each codec; with `recompresses` try the other codecs with it."""
        facts = {each.partition: each for each in self.partitions}
        self.samples = sample_codecs(
            directory,
            [(each.partition, sample) for each in self.partitions for sample in each.headers.samples],
            recompresses=recompresses,
            on_damage=lambda partition, error: facts[partition].note_damage(error),
        )

    @property
    def skew(self) -> float | None:
        """The bytes of the largest partition, as a multiple of the mean."""
        sizes = [each.headers.bytes for each in self.partitions]
        return max(sizes) / fmean(sizes) if any(sizes) else None

    @property
    def ratio(self) -> float | None:
        """Bytes before compression by bytes in the log."""
        inflated = 0.0
        for codec, batches in self.headers.codecs.items():
            ratio = self.ratio_of(codec)
            if ratio is None:
                return None
            inflated += batches.bytes * ratio
        return inflated / self.headers.bytes if self.headers.bytes else None

    def ratio_of(self, codec: str) -> float | None:
        """Return the ratio of one codec: of all batches if they were read, else of the sample."""
        if self.values is not None:
            return _quotient(
                sum(each.inflated_bytes[codec] for each in self.partitions), self.headers.codecs[codec].bytes
            )
        return self.samples[codec].ratio if codec in self.samples else None


def _sum_of(topics: Sequence[TopicFacts]) -> HeaderFacts:
    total = HeaderFacts()
    for topic in topics:
        total.merge(topic.headers)
    return total


def _facts(
    topics: Sequence[TopicFacts], found: Sequence[PartitionFacts], due: DueTasks, *, reads_values: bool
) -> list[Fact]:
    total = _sum_of(topics)
    freed = sum(task.bytes for task in due.tasks if task.task == "retention")
    return [
        Fact("depth", "looked at", "all records" if reads_values else "headers of all batches"),
        Fact("topics", "topics", len(topics), _COUNT),
        Fact("partitions", "partitions", len(found), _COUNT),
        Fact("segments", "segments", sum(each.segments for each in found), _COUNT),
        Fact("log_bytes", "bytes of segments", sum(each.log_bytes for each in found), _BYTES),
        Fact("records", "records", total.records, _COUNT),
        Fact("batches", "batches", total.batches, _COUNT),
        Fact("records_per_batch", "records per batch", _quotient(total.records, total.batches), _RATIO),
        Fact("bytes_per_record", "bytes per record", _quotient(total.bytes, total.records), _BYTES),
        Fact("oldest", "oldest batch", total.earliest_ms, _TIME),
        Fact("newest", "newest batch", total.latest_ms, _TIME),
        Fact("missing_offsets", "missing offsets", total.missing_offsets, _COUNT),
        Fact("control_batches", "control batches", total.control_batches, _COUNT),
        Fact("control_bytes", "bytes of control batches", total.control_bytes, _BYTES),
        Fact("empty_batches", "batches emptied by compaction", total.empty_batches, _COUNT),
        Fact("producers", "producer ids", _producer_count(total), _COUNT),
        Fact("producer_share", "of producers with an id", _quotient(total.idempotent_records, total.records), _SHARE),
        Fact("transactional_share", "transactional", _quotient(total.transactional_records, total.records), _SHARE),
        Fact("retention_bytes", "retention frees now", freed, _BYTES),
    ]


def _quotient(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _producer_count(facts: HeaderFacts) -> int | None:
    return None if facts.has_more_producers else len(facts.producers)


def _topics_table(topics: Sequence[TopicFacts]) -> Table:
    columns = (
        TableColumn("topic", "TOPIC"),
        TableColumn("partitions", "PARTITIONS", _COUNT),
        TableColumn("records", "RECORDS", _COUNT),
        TableColumn("bytes", "BYTES", _BYTES),
        TableColumn("bytes_per_record", "PER RECORD", _BYTES),
        TableColumn("compression", "RATIO", _RATIO),
        TableColumn("skew", "SKEW", _RATIO),
        TableColumn("oldest", "OLDEST", _TIME),
        TableColumn("newest", "NEWEST", _TIME),
    )
    rows = [
        (
            each.topic,
            len(each.partitions),
            each.headers.records,
            each.headers.bytes,
            _quotient(each.headers.bytes, each.headers.records),
            each.ratio,
            each.skew,
            each.headers.earliest_ms,
            each.headers.latest_ms,
        )
        for each in sorted(topics, key=lambda each: (-each.headers.bytes, each.topic))
    ]
    return Table("topics", "Topics, the largest first", columns, rows, 10)


def _partitions_table(found: Sequence[PartitionFacts]) -> Table:
    columns = (
        TableColumn("partition", "PARTITION"),
        TableColumn("records", "RECORDS", _COUNT),
        TableColumn("bytes", "BYTES", _BYTES),
        TableColumn("batches", "BATCHES", _COUNT),
        TableColumn("codecs", "CODECS"),
        TableColumn("start_offset", "START", _OFFSET),
        TableColumn("end_offset", "END", _OFFSET),
        TableColumn("missing_offsets", "MISSING", _COUNT),
        TableColumn("late_batches", "LATE", _COUNT),
        TableColumn("oldest", "OLDEST", _TIME),
        TableColumn("newest", "NEWEST", _TIME),
    )
    rows: list[Sequence[Value]] = [
        (
            str(each.partition),
            each.headers.records,
            each.headers.bytes,
            each.headers.batches,
            ", ".join(sorted(each.headers.codecs, key=lambda codec: -each.headers.codecs[codec].batches)),
            each.start_offset,
            each.end_offset,
            each.headers.missing_offsets,
            each.headers.late_batches,
            each.headers.earliest_ms,
            each.headers.latest_ms,
        )
        for each in sorted(found, key=lambda each: (-each.headers.bytes, each.partition))
        if each.failure is None
    ]
    return Table("partitions", "Partitions, the largest first", columns, rows, 5)


def _codecs_table(topics: Sequence[TopicFacts]) -> Table:
    columns = (
        TableColumn("topic", "TOPIC"),
        TableColumn("codec", "CODEC"),
        TableColumn("batches", "BATCHES", _COUNT),
        TableColumn("bytes", "BYTES", _BYTES),
        TableColumn("ratio", "RATIO", _RATIO),
        TableColumn("sampled_batches", "SAMPLED", _COUNT),
    )
    rows: list[Sequence[Value]] = []
    for topic in topics:
        for codec, batches in topic.headers.codecs.items():
            sample = topic.samples.get(codec, CodecSample())
            rows.append((topic.topic, codec, batches.batches, batches.bytes, topic.ratio_of(codec), sample.batches))
    rows.sort(key=lambda row: (-row[3], row[0]))  # type: ignore[operator]
    return Table("codecs", "Codecs", columns, rows, 5)


def _other_codecs_table(topics: Sequence[TopicFacts]) -> Table:
    columns = (
        TableColumn("topic", "TOPIC"),
        TableColumn("codec", "CODEC NOW"),
        TableColumn("sampled_batches", "SAMPLED", _COUNT),
        *(TableColumn(codec, codec.upper(), _BYTES) for codec in CODECS),
    )
    rows: list[Sequence[Value]] = []
    for topic in topics:
        for codec, sample in topic.samples.items():
            saved = bytes_saved(sample, topic.headers.codecs[codec].bytes)
            if saved:
                rows.append((topic.topic, codec, sample.recompressed_batches, *saved))
    return Table(
        "other_codecs", "Bytes that another codec would save, estimated (negative: needs more)", columns, rows, 5
    )


def _producers_table(topics: Sequence[TopicFacts]) -> Table:
    columns = (
        TableColumn("topic", "TOPIC"),
        TableColumn("producer_id", "PRODUCER ID", _OFFSET),
        TableColumn("epoch", "EPOCH", _OFFSET),
        TableColumn("records", "RECORDS", _COUNT),
        TableColumn("batches", "BATCHES", _COUNT),
    )
    rows = [
        (topic.topic, producer_id, wrote.epoch, wrote.records, wrote.batches)
        for topic in topics
        for producer_id, wrote in topic.headers.producers.items()
    ]
    rows.sort(key=lambda row: (-row[3], row[0], row[1]))
    return Table("producers", "Producers, those with the most records", columns, rows[:PRODUCERS_SHOWN_MAX], 3)


def _offset_gaps_table(found: Sequence[PartitionFacts]) -> Table:
    columns = (
        TableColumn("partition", "PARTITION"),
        TableColumn("offsets", "OFFSETS", _COUNT),
        TableColumn("first", "FIRST", _OFFSET),
        TableColumn("next_offset", "GOES ON AT", _OFFSET),
    )
    rows = [(str(each.partition), *gap) for each in found for gap in each.headers.offset_gaps]
    rows.sort(key=lambda row: -row[1])
    return Table("offset_gaps", "Offsets without records between batches", columns, rows[:GAPS_SHOWN_MAX], 3)


def _time_gaps_table(found: Sequence[PartitionFacts]) -> Table:
    columns = (
        TableColumn("partition", "PARTITION"),
        TableColumn("seconds", "SILENCE", _SECONDS),
        TableColumn("begin", "FROM", _TIME),
        TableColumn("end", "TO", _TIME),
        TableColumn("offset", "OFFSET", _OFFSET),
    )
    rows = [
        (str(each.partition), gap.duration_ms / 1000, gap.begin_ms, gap.end_ms, gap.offset)
        for each in found
        for gap in each.headers.time_gaps
    ]
    rows.sort(key=lambda row: -row[1])
    return Table("time_gaps", "Longest times between two batches", columns, rows[:GAPS_SHOWN_MAX], 3)


def _due_table(due: DueTasks) -> Table:
    columns = (
        TableColumn("task", "TASK"),
        TableColumn("partition", "PARTITION"),
        TableColumn("segments", "SEGMENTS", _COUNT),
        TableColumn("bytes", "BYTES", _BYTES),
        TableColumn("because", "BECAUSE"),
    )
    rows = [(each.task, each.name, each.segments, each.bytes, ", ".join(each.because)) for each in due.tasks]
    rows.sort(key=lambda row: -row[3])
    return Table("due", "Due now: segments that retention removes and compaction rewrites", columns, rows)


def _histograms(topics: Sequence[TopicFacts]) -> list[Histogram]:
    return [Histogram("times", "Records by time (of their batch)", _TIME, _sum_of(topics).times.bars())]


def _findings(found: Sequence[PartitionFacts]) -> Iterator[Diagnosis]:
    for each in found:
        if each.damaged_places:
            yield Diagnosis(
                Severity.DAMAGE,
                "unreadable-batches",
                str(each.partition),
                f"{counted(each.damaged_places, 'place')} left out, the first: {each.damage[0]}",
                "the numbers of this partition lack what could not be read",
                "offsetfs verify",
            )
        if each.headers.disordered_batches:
            yield Diagnosis(
                Severity.DAMAGE,
                "offset-order",
                str(each.partition),
                f"{counted(each.headers.disordered_batches, 'batch', 'batches')} with offsets that do not rise",
                "look-ups by offset may miss records",
                "offsetfs verify",
            )


def _unseen(
    directory: LogDirectories, found: Sequence[PartitionFacts], due: DueTasks, *, reads_values: bool
) -> Iterator[str]:
    if not reads_values:
        yield "keys and values; --values reads them"
    for path, error in directory.failures.items():
        yield left_out_message(path, error)
    for each in found:
        if each.failure is not None:
            yield f"{each.partition}: {each.failure}"
        if each.remote_note is not None:
            yield f"{each.partition}: {each.remote_note}"
    if due.unknown_topics:
        topics = sorted(due.unknown_topics)
        shown = ", ".join(topics[:3]) + (", …" if len(topics) > 3 else "")
        yield f"retention of {counted(len(topics), 'topic')} ({shown}): the settings are elsewhere"
    for partition, reason in due.failures.items():
        yield f"retention of {partition}: {reason}"


def _notes(topics: Sequence[TopicFacts]) -> Iterator[str]:
    total = _sum_of(topics)
    yield "Records of aborted transactions count; control batches do not."
    if total.unknown_sets:
        sets = counted(total.unknown_sets, "compressed set")
        yield f"{sets} of message format v0 or v1 have records that headers do not count."
    sampled = sum(sample.batches for topic in topics for sample in topic.samples.values())
    if sampled:
        read = "Ratios of compression" if topics[0].values is None else "Savings of other codecs"
        yield f"{read} are those of {counted(sampled, 'sampled batch', 'sampled batches')}."
