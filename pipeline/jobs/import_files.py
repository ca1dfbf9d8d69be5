"""`import`: files into a topic, each record once, also after a crash of any process.

text     each line a value, its bytes as they are
ndjson   each line a record: the fields of `records.ndjson` (value, key, headers, timestamp, partition)
parquet  the columns `value`, `key`, `headers`, `timestamp`; what `export` has made fits
csv      with a header: each row a record, its value a JSON object of the columns

Lines are taken by workers, a range of bytes of a file each, and never become Python objects; a CSV file is taken whole,
because a newline may be quoted; Parquet goes through a DataFrame. Records of one key keep the order of files (by name),
and of lines in a file. A line or row that is wrong goes to the rejects, with its file and number; more of them than
allowed end the job before anything is published. The name of a job is a hash of its input, so that the same input,
given again, is not imported again.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.csv_rows import stage_csv
from offsetfs.pipeline.jobs.lines import FileRange, stage_lines
from offsetfs.pipeline.jobs.workers import Answer, JobFailed, check_visible, spread
from offsetfs.pipeline.journal import Job, Published, find_published
from offsetfs.pipeline.publication import publish, withdraw
from offsetfs.pipeline.staging import Staged, Target
from offsetfs.pipeline.write_options import WriteOptions, topic_shapes
from offsetfs.storage import JSON_VALUES, files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("text", "ndjson", "parquet", "csv")
SPLIT_BYTES = 128 << 20
"""About how much of a file a task takes; the last one gets no crumb."""
REJECTS_SHOWN_MAX = 10_000
"""The number of rejects that are kept of one task."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that was not imported."""

    file: str
    line: int
    reason: str


class TooManyRejects(JobFailed):
    """More lines are wrong than may be; `rejects` has the first of them."""

    def __init__(self, sentence: str, rejects: tuple[Reject, ...]) -> None:
        super().__init__(sentence)
        self.rejects = rejects


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The published records, and the rejected lines."""

    published: Published
    rejected: int
    rejects: tuple[Reject, ...]


def import_files(
    spark: SparkSession,
    source: str | Sequence[str],
    destination: str,
    topic: str,
    *,
    format: str = "text",
    partitions: int | None = None,
    rejects_max: int = 0,
    json_values: str = "refuse",
) -> ImportResult:
    """Append the records of files, directories of them, or patterns, to a topic; on disk after return.

    `partitions` makes the topic where it is missing. `json_values`, for ndjson: "text" takes a `value` that is not a
    string as its text, "refuse" rejects the line. Raises `JobFailed`, `OptionError`, `LogDirectoryLocked`, OSError;
    then nothing of it is in the log, or, after a crash, all of it will be when the next job begins.
    """
    if format not in FORMATS:
        raise JobFailed(f"format {format} must be one of {', '.join(FORMATS)}")
    if json_values not in JSON_VALUES:
        raise JobFailed(f"json_values is {json_values!r}, but must be one of {', '.join(JSON_VALUES)}")
    if json_values != "refuse" and format != "ndjson":
        raise JobFailed(f"json_values={json_values} is for the format ndjson, not for {format}")
    paths = input_files([source] if isinstance(source, str) else source)
    options = WriteOptions.parse({"path": destination, "topic": topic, **_made(partitions)})
    shapes = topic_shapes(options)
    application = f"import {_fingerprint(paths, topic, format)}"
    before = find_published(options.path, Job("", application, 0))
    if before is not None:
        return ImportResult(before, 0, ())
    if format == "parquet":
        return _through_a_frame(spark, paths, options, application)
    check_visible(spark, options.path, is_to_write=True)
    target = Target(options.path, uuid.uuid4().hex, shapes, topic)
    stage = functools.partial(_stage, target, format, rejects_max, json_values == "text")
    return _by_lines(spark, paths, target, application, format, rejects_max, stage)


def _made(partitions: int | None) -> Mapping[str, str]:
    return {} if partitions is None else {"partitions": str(partitions)}


def input_files(sources: Sequence[str]) -> list[str]:
    """Return the selected files, sorted by name. `JobFailed` if there is none."""
    selected: set[str] = set()
    for source in sources:
        if os.path.isdir(source):
            below = (os.path.join(path, name) for path, _, names in os.walk(source) for name in names)
            selected |= {path for path in below if not os.path.basename(path).startswith((".", "_"))}
        else:
            selected |= {path for path in glob.glob(source) if os.path.isfile(path)}
    if not selected:
        raise JobFailed(f"{', '.join(sources)}: there is no file to import; give files, directories or patterns")
    return sorted(os.path.abspath(path) for path in selected)


def _fingerprint(paths: Sequence[str], topic: str, format: str) -> str:
    digest = hashlib.sha256(f"{topic}\0{format}".encode())
    for path in paths:
        status = files.status(path)
        digest.update(f"\0{path}\0{status.st_size}\0{status.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


# --- lines -----------------------------------------------------------------------------------------------------------


def _by_lines(
    spark: SparkSession,
    paths: Sequence[str],
    target: Target,
    application: str,
    format: str,
    rejects_max: int,
    stage: Callable[[tuple[int, FileRange]], Answer],
) -> ImportResult:
    sizes = [(path, files.status(path).st_size) for path in paths]
    if format == "csv":
        ranges = [FileRange(path, 0, size) for path, size in sizes if size]
    else:
        ranges = [part for path, size in sizes for part in file_ranges(path, size)]
    try:
        answers = spread(spark, stage, list(enumerate(ranges)))
        rejected = sum(answer["rejected"] for answer in answers)
        rejects = tuple(Reject(**fields) for answer in answers for fields in answer["rejects"])
        if rejected > rejects_max:
            first = rejects[0]
            sentence = f"{first.file}, line {first.line}: {first.reason}"
            raise TooManyRejects(f"{sentence} ({rejected} such lines, {rejects_max} allowed)", rejects)
        staged = [Staged.from_json(answer["staged"]) for answer in answers]
        published = publish(target.path, Job(target.job, application, 0), staged)
    except BaseException:
        withdraw(target.path, Job(target.job, application, 0))
        raise
    return ImportResult(published, rejected, rejects)


def file_ranges(path: str, size: int) -> list[FileRange]:
    """Return ranges of a file of about equal size; none for an empty file."""
    count = max(round(size / SPLIT_BYTES), 1)
    ends = [size * number // count for number in range(count + 1)]
    return [FileRange(path, start, end) for start, end in pairwise(ends) if start < end]


def _stage(
    target: Target, format: str, rejects_max: int, values_as_text: bool, numbered: tuple[int, FileRange]
) -> Answer:
    from pyspark import TaskContext

    split, wanted = numbered
    context = TaskContext.get()
    attempt = context.taskAttemptId() if context else 0
    shown_max = min(rejects_max, REJECTS_SHOWN_MAX)
    if format == "csv":
        result = stage_csv(wanted.path, target, split, attempt, rejects_max=shown_max)
    else:
        kind = {"is_json": format == "ndjson", "values_as_text": values_as_text}
        result = stage_lines(wanted, target, split, attempt, rejects_max=shown_max, **kind)
    rejects = [{"file": wanted.path, "line": line, "reason": reason} for line, reason in result.rejects]
    return {"staged": result.staged.as_json(), "rejected": result.rejected, "rejects": rejects}


# --- frames ----------------------------------------------------------------------------------------------------------


def _through_a_frame(
    spark: SparkSession, paths: Sequence[str], options: WriteOptions, application: str
) -> ImportResult:
    frame = _parquet(spark, paths)
    assert options.topic is not None
    writer = frame.write.format("offsetfs").mode("append").option("topic", options.topic)
    writer.option("txnAppId", application).option("txnVersion", 0).save(options.path)
    published = find_published(options.path, Job("", application, 0))
    assert published is not None
    return ImportResult(dataclasses.replace(published, is_repeated=False), 0, ())


def _parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    frame = spark.read.parquet(*paths)
    if "value" not in frame.columns:
        raise JobFailed(f"{paths[0]}: there is no column value, only {', '.join(frame.columns)}")
    return frame.select([name for name in ("key", "value", "headers", "timestamp") if name in frame.columns])


def write_rejects(path: str, rejects: Sequence[Reject]) -> None:
    """Write the rejects as lines of JSON; durable on return."""
    lines = "".join(
        json.dumps({"file": reject.file, "line": reject.line, "reason": reject.reason}) + "\n" for reject in rejects
    )
    files.replace_file(os.path.abspath(path), lines.encode("utf-8", "surrogateescape"))
