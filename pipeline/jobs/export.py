"""`export`: writes records as Parquet files, a range of offsets each, with a manifest of the ranges.

    DEST/_offsetfs_manifest.json
    DEST/topic=orders/partition=0/00000000000000000000-00000000000001000000.parquet     first offset, offset after last

Names depend only on topic, partition and range. The manifest is written before the files, as the plan. A file gets its
name when it is complete and synced. So a repeated job writes only what is missing, and a later job exports what was
appended since. Records of a partition keep their order within a file and between files.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from offsetfs.pipeline.jobs.lake import selection
from offsetfs.pipeline.jobs.workers import Answer, JobFailed, check_visible, spread
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.read_options import ReadOptions, local_path
from offsetfs.pipeline.scan import scan
from offsetfs.pipeline.scan_range import Range, is_another, resolve
from offsetfs.pipeline.splits import cut
from offsetfs.storage import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from offsetfs.pipeline.decoding import PlannedDecoding

MANIFEST = "_offsetfs_manifest.json"
_MANIFEST_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class PartitionExported:
    """One partition: the offsets in its files, and those of this run."""

    partition: str
    start: int
    end: int
    files_made: int
    records_made: int
    bytes_made: int


@dataclass(frozen=True, slots=True)
class ExportResult:
    """All exported partitions, and the part of this run."""

    files: int
    files_made: int
    records_made: int
    bytes_made: int
    partitions: tuple[PartitionExported, ...]
    """The partitions of which there are files, sorted."""


def export(
    spark: SparkSession,
    source: str,
    destination: str,
    topics: Sequence[str] = (),
    *,
    isolation: str = "read_uncommitted",
    compression: str = "zstd",
    bytes_per_file: int | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    decoding: Mapping[str, str] | None = None,
) -> ExportResult:
    """Write a log directory, or some topics of it, as Parquet files. Raises `OptionError`, `JobFailed`, OSError.

    `start_ms`, `end_ms`: as of `lake.selection`. `decoding`: options of a reader that decodes values.
    """
    size = {"partitionBytes": str(bytes_per_file)} if bytes_per_file else {}
    wanted = selection(topics, isolation=isolation, start_ms=start_ms, end_ms=end_ms)
    options = ReadOptions.parse({"path": source, **wanted, **size, **(decoding or {})})
    destination = local_path(destination, "the destination of export")
    os.makedirs(destination, exist_ok=True)
    schema, planned_decoding = _columns(options)
    planned = _plan(options, destination, has_typed_keys=schema["key"].dataType.typeName() != "binary")
    for path in options.paths:
        check_visible(spark, path)
    check_visible(spark, destination, is_to_write=True)
    missing = [part for part in planned if not files.exists(os.path.join(destination, _name(part)))]
    made = spread(
        spark, functools.partial(_write, options, destination, compression, schema, planned_decoding), missing
    )
    partitions = tuple(_exported(planned, missing, made))
    return ExportResult(
        len(planned),
        len(made),
        sum(partition.records_made for partition in partitions),
        sum(partition.bytes_made for partition in partitions),
        partitions,
    )


def _columns(options: ReadOptions) -> tuple[StructType, PlannedDecoding | None]:
    """Return the columns of the files, and what tasks need to decode values."""
    from offsetfs.pipeline.schema import schema_of

    if not options.decodes:
        return schema_of(options), None
    from offsetfs.pipeline.decoding import DecodingPlan

    with opened(options.paths, options.access) as directory:
        plan = DecodingPlan(options, None, directory)
        return schema_of(options, plan.value_type, plan.key_type), plan.planned(directory)


def _exported(
    planned: Sequence[Range], missing: Sequence[Range], made: Sequence[Answer]
) -> Iterator[PartitionExported]:
    for name in sorted({part.name for part in planned}):
        ranges = [part for part in planned if part.name == name]
        ours = [answer for part, answer in zip(missing, made, strict=True) if part.name == name]
        records, size = (sum(answer[key] for answer in ours) for key in ("records", "bytes"))
        start, end = min(part.start for part in ranges), max(part.end for part in ranges)
        yield PartitionExported(str(name), start, end, len(ours), records, size)


def _plan(options: ReadOptions, destination: str, *, has_typed_keys: bool = False) -> list[Range]:
    """Return the ranges of all files: those of the manifest, and new ones for later records; the manifest has them on
    return. `has_typed_keys`: keys are decoded.
    """
    path = os.path.join(destination, MANIFEST)
    manifest = _manifest(path)
    times = [options.start.timestamp_ms, options.end.timestamp_ms]
    described: dict[str, Any] = {"source": options.path, "isolation": options.is_committed_only, "times": times}
    described |= {"decode": options.decodes, "mask": list(options.mask_words)}
    described["keys"] = has_typed_keys
    before = {"times": [None, None], "decode": False, "mask": [], "keys": False, **manifest, "files": ()}
    if manifest and (before["decode"], before["mask"]) != (described["decode"], described["mask"]):
        raise JobFailed(f"{destination} holds an export with another --decode or --mask; export into another directory")
    if manifest and before["keys"] != has_typed_keys:
        has = "keys as bytes, and they have a schema now" if has_typed_keys else "decoded keys, which are bytes now"
        raise JobFailed(f"{destination} holds an export of {has}; export into another directory")
    if manifest and before != {**described, "files": ()}:
        raise JobFailed(
            f"{destination} holds an export of {manifest['source']}, or of another isolation level or range of times;"
            " export into another directory"
        )
    planned = [Range(**fields) for fields in manifest.get("files", ())]
    ends: dict[tuple[str, int], int] = {}
    for part in planned:
        ends[part.topic, part.partition] = max(part.end, ends.get((part.topic, part.partition), 0))
    with opened(options.paths, options.access) as directory:
        resolved = resolve(directory, options)
        _check_same_topics(planned, resolved, destination)
        new = [replace(part, start=max(part.start, ends.get((part.topic, part.partition), 0))) for part in resolved]
        new = [part for part in new if part.start < part.end]
        pieces = [cut(directory, [part], splits_min=1, bytes_per_split=options.bytes_per_split) for part in new]
        planned += [part for tasks in pieces for ranges in tasks for part in ranges]
    if new or not manifest:
        content = {**described, "files": [asdict(part) for part in planned]}
        files.replace_file(path, json.dumps(content, indent=1).encode())
    return planned


def _check_same_topics(planned: Sequence[Range], new: Sequence[Range], destination: str) -> None:
    """Raise `JobFailed` if a topic was created again since: its offsets are those of other records."""
    known = {part.name: part.topic_id for part in planned}
    for part in new:
        if is_another(part.topic_id, known.get(part.name)):
            raise JobFailed(
                f"{destination} holds records of {part.topic} before the topic was deleted and created again;"
                " export into another directory"
            )


def _manifest(path: str) -> dict[str, Any]:
    try:
        manifest = json.loads(files.read_file(path, _MANIFEST_BYTES_MAX))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise JobFailed(f"{path} is not JSON; export into another directory") from None
    return dict(manifest)


def _name(wanted: Range) -> str:
    directory = os.path.join(f"topic={wanted.topic}", f"partition={wanted.partition}")
    return os.path.join(directory, f"{wanted.start:020}-{wanted.end:020}.parquet")


def _write(
    options: ReadOptions,
    destination: str,
    compression: str,
    columns: StructType,
    decoding: PlannedDecoding | None,
    wanted: Range,
) -> Answer:
    """Write one file; durable under its name on return."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark import TaskContext

    from offsetfs.pipeline.schema import arrow_schema

    whole = arrow_schema(columns)
    schema = pa.schema([field for field in whole if field.name not in ("topic", "partition")])
    path = os.path.join(destination, _name(wanted))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    context = TaskContext.get()
    temporary = f"{path}.{context.taskAttemptId() if context else 0}.tmp"
    records = 0
    files.create_file(temporary).close()
    with pq.ParquetWriter(temporary, schema, compression=compression) as writer:
        for table in _row_groups(scan((wanted,), options, schema, decoding)):
            records += table.num_rows
            writer.write_table(table)
    with files.open_file(temporary, writable=True) as file:
        file.sync()
        size = file.size()
    files.rename(temporary, path)
    files.sync_directory(os.path.dirname(path))
    return {"records": records, "bytes": size}


ROW_GROUP_BYTES = 64 << 20


def _row_groups(batches: Any) -> Any:
    """Yield tables of about `ROW_GROUP_BYTES`: small row groups make Parquet slow to read."""
    import pyarrow as pa

    gathered, size = [], 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)
