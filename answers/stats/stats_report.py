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
from offsetfs.answers.stats.value_facts import ValueFacts, quotient
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
    topics = [TopicFacts(topic, list(group)) for topic, group in groupby(found, lambda facts: facts.partition.topic)]
    largest = sorted(topics, key=lambda topic: -topic.headers.bytes)[:RECOMPRESSED_TOPICS_MAX]
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
    return report, all(facts.failure is None for facts in found) and not directory.failures


class TopicFacts:
    """The partitions of one topic, and their sum."""

    def __init__(self, topic: str, partitions: list[PartitionFacts]) -> None:
        self.topic = topic
        self.partitions = partitions
        self.headers = HeaderFacts()
        for facts in partitions:
            self.headers.merge(facts.headers)
        self.log_bytes = sum(facts.log_bytes for facts in partitions)
        self.values: ValueFacts | None = None
        self.samples: dict[str, CodecSample] = {}

    def sample(self, directory: LogDirectories, *, recompresses: bool) -> None:
        """Read a sample of the batches of each codec; with `recompresses` try the other codecs with it."""
        by_partition = {facts.partition: facts for facts in self.partitions}
        self.samples = sample_codecs(
            directory,
            [(facts.partition, sample) for facts in self.partitions for sample in facts.headers.samples],
            recompresses=recompresses,
            on_damage=lambda partition, error: by_partition[partition].note_damage(error),
        )

    @property
    def skew(self) -> float | None:
        """The bytes of the largest partition, as a multiple of the mean."""
        sizes = [facts.headers.bytes for facts in self.partitions]
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
            return quotient(
                sum(facts.inflated_bytes[codec] for facts in self.partitions), self.headers.codecs[codec].bytes
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
        Fact("segments", "segments", sum(facts.segments for facts in found), _COUNT),
        Fact("log_bytes", "bytes of segments", sum(facts.log_bytes for facts in found), _BYTES),
        Fact("records", "records", total.records, _COUNT),
        Fact("batches", "batches", total.batches, _COUNT),
        Fact("records_per_batch", "records per batch", quotient(total.records, total.batches), _RATIO),
        Fact("bytes_per_record", "bytes per record", quotient(total.bytes, total.records), _BYTES),
        Fact("oldest", "oldest batch", total.earliest_ms, _TIME),
        Fact("newest", "newest batch", total.latest_ms, _TIME),
        Fact("missing_offsets", "missing offsets", total.missing_offsets, _COUNT),
        Fact("control_batches", "control batches", total.control_batches, _COUNT),
        Fact("control_bytes", "bytes of control batches", total.control_bytes, _BYTES),
        Fact("empty_batches", "batches emptied by compaction", total.empty_batches, _COUNT),
        Fact("producers", "producer ids", _producer_count(total), _COUNT),
        Fact("producer_share", "of producers with an id", quotient(total.idempotent_records, total.records), _SHARE),
        Fact("transactional_share", "transactional", quotient(total.transactional_records, total.records), _SHARE),
        Fact("retention_bytes", "retention frees now", freed, _BYTES),
    ]


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
            topic.topic,
            len(topic.partitions),
            topic.headers.records,
            topic.headers.bytes,
            quotient(topic.headers.bytes, topic.headers.records),
            topic.ratio,
            topic.skew,
            topic.headers.earliest_ms,
            topic.headers.latest_ms,
        )
        for topic in sorted(topics, key=lambda topic: (-topic.headers.bytes, topic.topic))
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
            str(facts.partition),
            facts.headers.records,
            facts.headers.bytes,
            facts.headers.batches,
            ", ".join(sorted(facts.headers.codecs, key=lambda codec: -facts.headers.codecs[codec].batches)),
            facts.start_offset,
            facts.end_offset,
            facts.headers.missing_offsets,
            facts.headers.late_batches,
            facts.headers.earliest_ms,
            facts.headers.latest_ms,
        )
        for facts in sorted(found, key=lambda facts: (-facts.headers.bytes, facts.partition))
        if facts.failure is None
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
    rows = [(str(facts.partition), *gap) for facts in found for gap in facts.headers.offset_gaps]
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
        (str(facts.partition), gap.duration_ms / 1000, gap.begin_ms, gap.end_ms, gap.offset)
        for facts in found
        for gap in facts.headers.time_gaps
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
    rows = [(task.task, task.name, task.segments, task.bytes, ", ".join(task.because)) for task in due.tasks]
    rows.sort(key=lambda row: -row[3])
    return Table("due", "Due now: segments that retention removes and compaction rewrites", columns, rows)


def _histograms(topics: Sequence[TopicFacts]) -> list[Histogram]:
    return [Histogram("times", "Records by time (of their batch)", _TIME, _sum_of(topics).times.bars())]


def _findings(found: Sequence[PartitionFacts]) -> Iterator[Diagnosis]:
    for facts in found:
        if facts.damaged_places:
            yield Diagnosis(
                Severity.DAMAGE,
                "unreadable-batches",
                str(facts.partition),
                f"{counted(facts.damaged_places, 'place')} left out, the first: {facts.damage[0]}",
                "the numbers of this partition lack what could not be read",
                "offsetfs verify",
            )
        if facts.headers.disordered_batches:
            yield Diagnosis(
                Severity.DAMAGE,
                "offset-order",
                str(facts.partition),
                f"{counted(facts.headers.disordered_batches, 'batch', 'batches')} with offsets that do not rise",
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
    for facts in found:
        if facts.failure is not None:
            yield f"{facts.partition}: {facts.failure}"
        if facts.remote_note is not None:
            yield f"{facts.partition}: {facts.remote_note}"
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
