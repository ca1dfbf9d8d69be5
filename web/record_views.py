"""Records as the page shows them, and searches for them with the conditions of `offsetfs find`.

A shown record has no more than `SHOWN_CHARACTERS` of its key and of its value, and less of each header; what was cut
says so, with the whole size. A topic with a mask shows decoded values alone, and its values are not searched.
"""

from __future__ import annotations

import base64
import contextlib
import heapq
import json
import os
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from offsetfs.answers.find import Limit, Search
from offsetfs.answers.find_lines import Lines, LinesOf, record_lines
from offsetfs.answers.find_partitions import partitions_of_key
from offsetfs.answers.find_texts import WrongText, bounds_of, conditions_of, key_of, own_partitions
from offsetfs.answers.partitioners import Partitioner
from offsetfs.common.extras import install_command
from offsetfs.storage import Batch, LogDirectories, LogView, Record, TopicPartition
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.web.exact_json import exact_json
from offsetfs.web.http_server import HttpError
from offsetfs.web.tree_views import log_of, partitions_of

if TYPE_CHECKING:
    from offsetfs.schemas.decoded_lines import DecodedLines
    from offsetfs.schemas.json_texts import FollowingSchemas
    from offsetfs.schemas.masks import Masks
    from offsetfs.schemas.schema_files import FileSchema

SHOWN_CHARACTERS = 4096
"""Of a key or value in a list; of a name or value of a header an eighth."""
WHOLE_CHARACTERS = 1 << 20
"""Of the same of one record."""
RAW_BYTES = 64 << 10
"""Of a key or value in base64."""
HEADERS_SHOWN = 100
RECORDS_MAX = 1000
"""The records of one page."""
FOUND_MAX = 10_000
"""The records that a search shows."""

SCHEMAS_TOPIC = "_schemas"


class RecordsOf:
    """Makes lines of records of one directory, with values decoded by the schemas that are known."""

    def __init__(
        self,
        directory: LogDirectories,
        schema_words: Sequence[str] = (),
        masks: Sequence[str] = (),
        source: str = "",
        registry_word: str | None = None,
    ) -> None:
        """`source`: the LOGDIR of commands. ValueError for a wrong schema file or mask, or without their packages.

        InvalidConfig; OSError: of a registry.
        """
        self.directory = directory
        self.source = source or directory.path
        self.options = [word for schema in schema_words for word in ("--schema", schema)]
        """The options of `offsetfs find` for the same values."""
        self.masked = frozenset(word.partition(":")[0] for word in masks)
        self._lock = threading.Lock()
        self._decoded: dict[TopicPartition, DecodedLines] = {}
        self.files: dict[str, FileSchema] = {}
        """Schemas of files."""
        self.masks: Masks | None = None
        self.registry_word = registry_word
        self._schemas = self._schemas_of(schema_words, masks, registry_word)
        self.options += _registry_words(registry_word)
        self.options += [word for mask in masks for word in ("--mask", mask)]
        if self._schemas is not None:
            self.options.append("--decoded")

    def _schemas_of(
        self, words: Sequence[str], masks: Sequence[str], registry_word: str | None
    ) -> FollowingSchemas | None:
        if not (words or masks or registry_word or self.directory.partitions_of(SCHEMAS_TOPIC)):
            return None
        try:
            from offsetfs.schemas.background_registry import open_background_registry
            from offsetfs.schemas.json_texts import FollowingSchemas
            from offsetfs.schemas.masks import parse_masks
            from offsetfs.schemas.schema_files import read_schema_files
        except ModuleNotFoundError as error:
            if words or masks or registry_word:
                raise ValueError(f"schemas and masks need {error.name}: {install_command('arrow')}") from error
            return None
        registry = open_background_registry(registry_word)
        self.files, self.masks = dict(read_schema_files(words)), parse_masks(masks)
        schemas = FollowingSchemas(self.directory, self.files, self.masks, registry)
        schemas.check_masks()
        return schemas

    def lines_of(self, name: TopicPartition) -> Lines:
        """Return what writes records of a partition whole, as `offsetfs find` does; decoded if there are schemas."""
        if self._schemas is None:
            return record_lines(name)

        def lines(batch: Batch, rows: array[int], numbers: array[int]) -> list[bytes]:
            made = self._decoder(name).records([batch])
            begins = [0, *made.ends]
            return [made.data[begins[number] : begins[number + 1]] for number in numbers]

        return lines

    def shown_of(self, name: TopicPartition) -> Lines:
        """Return what writes records of a partition as the page shows them: each a line of JSON."""
        lines = self.lines_of(name)

        def shown(batch: Batch, rows: array[int], numbers: array[int]) -> list[bytes]:
            return [exact_json(shown_record(line)) for line in lines(batch, rows, numbers)]

        return shown

    def line_of(self, name: TopicPartition, offset: int) -> bytes:
        """Return the line of one record, whole. `HttpError` if there is none; StorageError; OSError."""
        batch = log_of(self.directory, name).batch_at(offset)
        record = None if batch is None or batch.header.is_control else batch.record(offset)
        if batch is None or record is None:
            raise HttpError(404, f"{name} has no record at offset {offset}: it is a gap, a marker, or beyond the end")
        if self._schemas is not None:
            return self._decoder(name).line_of(record)
        number = next(number for number, record in enumerate(batch.records()) if record.offset == offset)
        return self.lines_of(name)(batch, batch.rows(), array("q", [number]))[0]

    def record_of(self, name: TopicPartition, offset: int) -> Record:
        """Return one record as it is stored. `HttpError` if there is none, or the topic has a mask; StorageError."""
        if name.topic in self.masked:
            raise HttpError(403, f"{name.topic} has a mask, so its raw values are not shown")
        batch = log_of(self.directory, name).batch_at(offset)
        record = None if batch is None or batch.header.is_control else batch.record(offset)
        if record is None:
            raise HttpError(404, f"{name} has no record at offset {offset}: it is a gap, a marker, or beyond the end")
        return record

    def _decoder(self, name: TopicPartition) -> DecodedLines:
        from offsetfs.schemas.decoded_lines import DecodedLines
        from offsetfs.schemas.json_texts import FollowingDecoder, MaskedDecoder
        from offsetfs.schemas.references import KEY_FIELD

        with self._lock:
            if name not in self._decoded:
                assert self._schemas is not None
                made = MaskedDecoder if name.topic in self.masked else FollowingDecoder
                keys = FollowingDecoder(self._schemas, name.topic, KEY_FIELD)
                self._decoded[name] = DecodedLines(name, made(self._schemas, name.topic), keys)
            return self._decoded[name]


def _registry_words(word: str | None) -> list[str]:
    """Return the option of a registry, for commands that the page shows; none for a URL with a login."""
    if word is None:
        return []
    from offsetfs.schemas.registry_settings import has_login

    return [] if has_login(word) else ["--schema-registry", word if "://" in word else os.path.abspath(word)]


# --- shown records ---------------------------------------------------------------------------------------------------


def shown_record(line: bytes, characters: int = SHOWN_CHARACTERS) -> dict[str, Any]:
    """Return a record from its line of JSON; `characters`: those of each of its parts."""
    record = json.loads(line)
    headers = record["headers"]
    return {
        "topic": record["topic"],
        "partition": record["partition"],
        "offset": record["offset"],
        "timestamp_ms": record["timestamp"] if record["timestamp"] >= 0 else None,
        "timestamp_type": record["timestamp_type"],
        "key": _content(record, "key", characters),
        "value": _content(record, "value", characters),
        "headers": [
            {part: _content(header, key, characters // 8) for part, key in (("name", "key"), ("value", "value"))}
            for header in headers[:HEADERS_SHOWN]
        ],
        "headers_left_out": max(len(headers) - HEADERS_SHOWN, 0),
        "schema": record.get("value_schema"),
        "error": record.get("value_error"),
    }


def _content(record: Mapping[str, Any], name: str, characters: int) -> dict[str, Any] | None:
    """Return a part of a record: its text, its bytes in base64, or as JSON what its schema says; None for null."""
    encoded = record.get(f"{name}_b64")
    if encoded is not None:
        kept = characters // 4 * 4
        size = len(encoded) // 4 * 3 - encoded[-2:].count("=")
        return {"form": "base64", "content": encoded[:kept], "bytes": size, "is_cut": len(encoded) > kept}
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, str) and f"{name}_schema" not in record:
        size = len(value.encode("utf-8", "surrogatepass"))
        return {"form": "text", "content": value[:characters], "bytes": size, "is_cut": len(value) > characters}
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > characters:
        size = len(text.encode("utf-8", "surrogatepass"))
        return {"form": "text", "content": text[:characters], "bytes": size, "is_cut": True}
    return {"form": "json", "content": value, "bytes": None, "is_cut": False}


def raw_part(data: bytes | None) -> dict[str, Any] | None:
    """Return the first bytes of a key or value in base64, and the size of all."""
    if data is None:
        return None
    encoded = base64.b64encode(data[:RAW_BYTES]).decode()
    return {"form": "base64", "content": encoded, "bytes": len(data), "is_cut": len(data) > RAW_BYTES}


# --- searches --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchTexts:
    """A search as an address has it: the words of `offsetfs find`."""

    topics: Sequence[str] = ()
    partition: int | None = None
    key: str | None = None
    key_base64: str | None = None
    partitioner: str = "any"
    texts: Sequence[str] = ()
    patterns: Sequence[str] = ()
    place: str = "value"
    ignores_case: bool = False
    headers: Sequence[str] = ()
    where: str | None = None
    start: str | None = None
    end: str | None = None
    is_committed_only: bool = False


def search_of(records: RecordsOf, texts: SearchTexts) -> Search:
    """Return the search that texts mean, which runs once. `HttpError` for wrong ones."""
    try:
        key = key_of(texts.key, texts.key_base64)
        conditions = conditions_of(
            key, texts.texts, texts.patterns, texts.place, texts.headers, ignores_case=texts.ignores_case
        )
        partitions = _partitions(records.directory, texts, key)
        bounds = bounds_of(texts.start, texts.end, partitions)
    except WrongText as error:
        raise HttpError(400, error.sentence(error.name)) from error
    if (texts.texts or texts.patterns) and texts.place in ("value", "any"):
        for topic in sorted({partition.topic for partition in partitions} & records.masked):
            raise HttpError(403, f"{topic} has a mask, so its values are not searched: search its keys or headers")
    for partition in partitions:
        with contextlib.suppress(StorageError, OSError):  # the search reports it
            log_of(records.directory, partition)
    return Search(records.directory, partitions, conditions, bounds, is_committed_only=texts.is_committed_only)


def _partitions(directory: LogDirectories, texts: SearchTexts, key: bytes | None) -> list[TopicPartition]:
    if texts.partition is not None:
        if len(texts.topics) != 1:
            raise HttpError(400, "partition belongs to one topic: give topic once")
        name = TopicPartition(texts.topics[0], texts.partition)
        log_of(directory, name)
        return [name]
    if texts.topics:
        named = [partition for topic in dict.fromkeys(texts.topics) for partition in partitions_of(directory, topic)]
    else:
        named = own_partitions(directory.partitions())
    if key is None:
        return named
    topics = dict.fromkeys(partition.topic for partition in named)
    return [*partitions_of_key(named, topics, key, Partitioner(texts.partitioner), None).partitions]


class SearchEnded(Exception):
    """Nobody wants what a search finds."""


def page_of(records: RecordsOf, search: Search, limit: int, *, is_newest: bool) -> Any:
    """Return the oldest or newest records that are found, up to `limit` of them."""
    if search.conditions or search.where is not None:
        lines = [line for some in search.lines(records.shown_of, Limit(limit, is_newest)) for line in some]
    else:
        lines = _unconditional(records, search, limit, is_newest=is_newest)
    return {"records": list(map(json.loads, lines)), **left_out(search)}


def _unconditional(records: RecordsOf, search: Search, limit: int, *, is_newest: bool) -> list[bytes]:
    """Return the lines of a page without conditions, by a look at few batches of each partition."""
    best = heapq.nlargest if is_newest else heapq.nsmallest
    kept: list[bytes] = []
    for name in search.partitions:
        try:
            found = _of_one(records, search, name, limit, is_newest=is_newest)
        except (StorageError, OSError) as error:
            search.note_damage(error)
            continue
        kept = found if len(search.partitions) == 1 else best(limit, [*kept, *found], key=_time_of)
    search.notes[:] = dict.fromkeys(search.notes)
    return kept


def _time_of(line: bytes) -> int:
    time = json.loads(line)["timestamp_ms"]
    return -1 if time is None else int(time)


def _of_one(records: RecordsOf, search: Search, name: TopicPartition, limit: int, *, is_newest: bool) -> list[bytes]:
    """Return the first or last lines of a partition. Ranges of offsets are read, each larger than the one before."""
    log, bounds = records.directory.log(name), search.bounds
    start, stop = max(log.log_start_offset, bounds.start or 0), log.log_end_offset()
    if bounds.start_ms is not None:
        view = LogView(log, is_committed_only=search.is_committed_only, on_damage=search.note_damage)
        first = view.find_timestamp(bounds.start_ms)
        start = stop if first is None else max(start, first[0])
    stop = stop if bounds.stop is None else min(stop, bounds.stop)
    found: list[bytes] = []
    size = limit
    while start < stop and len(found) < limit:
        low, high = (max(start, stop - size), stop) if is_newest else (start, min(stop, start + size))
        part = replace(search, partitions=[name], bounds=replace(bounds, start=low, stop=high), damaged=0)
        left = Limit(limit - len(found), is_newest)
        found += [line for some in part.lines(records.shown_of, left) for line in some]
        search.damaged += part.damaged
        start, stop, size = (start, low, size * 8) if is_newest else (high, stop, size * 8)
    return found


def left_out(search: Search) -> dict[str, Any]:
    """Return what a search has not looked at. Other views show its damage from now on."""
    for error in search.damage:
        if isinstance(error, StorageError):
            search.directory.note_damage(error)
    return {
        "damaged": search.damaged,
        "left_out": [*search.notes, *(sentence(error) for error in search.damage)],
    }


def found_lines(search: Search, lines_of: LinesOf) -> Iterator[list[bytes]]:
    """Yield the lines of a search, at most `FOUND_MAX`; `search.found` has their number."""
    left = FOUND_MAX
    for lines in search.lines(lines_of):
        yield lines[:left]
        left -= len(lines)
        if left <= 0:
            search.found = FOUND_MAX
            return
