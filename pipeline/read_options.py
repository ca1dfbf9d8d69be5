"""The options of a reader: those of Spark's Kafka source under their names, and a few of our own.

Names are case-insensitive, as Spark passes them; values are text. An unknown option, a contradiction, or an invalid
value is an `OptionError` that names the option. Checks that need the log directory (whether the topic or the offset
exists) are in `scan_range`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from offsetfs.archive import urls
from offsetfs.common.name_patterns import NamePattern, PatternError
from offsetfs.common.quantities import parse_size
from offsetfs.storage import READ_COMMITTED, READ_UNCOMMITTED

EARLIEST, LATEST = -2, -1
"""The offsets that stand for the two ends of a partition, in JSON and in this module."""

TOPIC_IDS, COLUMNS, KEY_COLUMNS = "~topicIds", "~columns", "~keyColumns"
"""The names in the offsets of a checkpoint that have the ids of topics, and types. No topic has these names."""

FAILFAST, PERMISSIVE, DROPMALFORMED = "FAILFAST", "PERMISSIVE", "DROPMALFORMED"

NEAREST, NULL, FAIL = "nearest", "null", "fail"

SPLIT_BYTES = 128 << 20
"""Bytes of segments that one task reads, unless `partitionBytes` says otherwise."""

TRIGGER_DELAY_MAX_MS = 15 * 60_000
"""The time that a micro-batch waits for `minOffsetsPerTrigger`, unless `maxTriggerDelay` says otherwise."""

CACHE_BYTES_MAX = 2 << 30
"""The bound of the cache of an executor, unless `cacheSize` says otherwise."""

_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

Ends = Literal["starting", "ending"]
ByPartition = dict[tuple[str, int], int]
"""An offset or a timestamp for each partition that was named."""

_Value = TypeVar("_Value")

_COMMON = (
    "path",
    "paths",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "isolation",
    "kafka.isolation.level",
    "mode",
    "timesBeyondSpark",
    "decode",
    "schemas",
    "schemaRegistry",
    "schemaLocation",
    "mask",
    "partitionBytes",
    "cache",
    "cacheSize",
    "timeout",
)
_BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
KNOWN = (*_COMMON, *_BATCH_ONLY, *_STREAM_ONLY)
"""All options."""

_ONLY = {False: _BATCH_ONLY, True: _STREAM_ONLY, None: (*_BATCH_ONLY, *_STREAM_ONLY)}


class OptionError(ValueError):
    """An option is unknown, wrong, or contradicts another option; the message is one sentence that names it."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected partitions. At most one field is set; none: all but the broker's own topics."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """The place at which reading begins or ends. Precedence as in Spark's Kafka source: global time, times, offsets."""

    default: int
    """`EARLIEST` or `LATEST`."""
    offsets: ByPartition | None = None
    timestamp_ms: int | None = None
    timestamps_ms: ByPartition | None = None


@dataclass(frozen=True, slots=True)
class ArchiveAccess:
    """The settings for reading archives in object storage; without effect on directories."""

    cache: str | None
    """A directory on each executor for blocks that are read again; None: blocks are in memory only."""
    cache_bytes_max: int
    timeout_s: float
    """The longest time of one request, more than 0."""


IN_MEMORY = ArchiveAccess(cache=None, cache_bytes_max=CACHE_BYTES_MAX, timeout_s=30.0)
"""The default."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All of them, checked."""

    paths: tuple[str, ...]
    """The log directories, absolute, and the URLs of archives, without repeats."""
    selection: Selection
    start: Bound
    end: Bound
    without_time: Literal["error", "latest"]
    """The meaning of a starting time that no record has reached."""
    splits_min: int
    records_per_split_max: int | None
    bytes_per_split: int
    records_per_trigger_max: int | None
    records_per_trigger_min: int | None
    trigger_delay_max_ms: int
    """The time that a micro-batch waits for so many records, in all."""
    fails_on_data_loss: bool
    has_headers: bool
    is_committed_only: bool
    mode: str
    times_beyond: str
    """The treatment of times that Spark cannot hold: NEAREST, NULL or FAIL."""
    access: ArchiveAccess
    decodes: bool = False
    """Whether values are decoded by their schemas."""
    schema_words: tuple[str, ...] = ()
    """Schemas in files, as `read_schema_files` takes them."""
    registry_word: str | None = field(default=None, repr=False)
    """A registry, as `open_registry` takes it; the URL may have a login."""
    schema_location: str | None = None
    """The directory that keeps the columns of decoded values."""
    mask_words: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The log directories and archives as `load()` takes them, and as one name for them."""
        return ",".join(self.paths)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool | None = False) -> ReadOptions:
        """Parse the options of a query. `OptionError` for the first invalid one. `is_stream` None: it is not known
        whether the query is a stream.
        """
        given = _Given(options, (*_COMMON, *_ONLY[is_stream]))
        return cls(
            paths=_paths(given),
            selection=_selection(given),
            start=_start(given, is_stream),
            end=_bound(given, "ending", LATEST),
            without_time=given.one_of("startingOffsetsByTimestampStrategy", "error", ("error", "latest")),
            splits_min=given.number("minPartitions") or 1,
            records_per_split_max=given.number("maxRecordsPerPartition"),
            bytes_per_split=given.number("partitionBytes") or SPLIT_BYTES,
            records_per_trigger_max=given.number("maxOffsetsPerTrigger"),
            records_per_trigger_min=_trigger_min(given),
            trigger_delay_max_ms=_trigger_delay_ms(given),
            fails_on_data_loss=given.flag("failOnDataLoss", True),
            has_headers=given.flag("includeHeaders", False),
            is_committed_only=_is_committed_only(given),
            mode=given.one_of("mode", FAILFAST, (FAILFAST, PERMISSIVE, DROPMALFORMED)),
            times_beyond=given.one_of("timesBeyondSpark", NEAREST, (NEAREST, NULL, FAIL)),
            access=_access(given),
            decodes=_decodes(given),
            schema_words=_words(given, "schemas", ","),
            registry_word=given.text("schemaRegistry") or None,
            schema_location=_schema_location(given),
            mask_words=_words(given, "mask", ";"),
        )


class _Given:
    """The options as they came, by their names in lower case."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        if is_of_a_table(options):
            raise OptionError(WITHOUT_TABLES)
        self._values = {name.lower(): value for name, value in options.items()}
        by_lower = {name.lower(): name for name in known}
        for name in options:
            if name.lower() not in by_lower:
                raise OptionError(f"unknown option {name}{_hint(name)}")

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", value.strip()) or int(value) < 1:
            raise OptionError(f"option {name}: {value!r} is not a whole number above 0")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() not in ("true", "false"):
            raise OptionError(f"option {name}: {value!r} is neither true nor false")
        return value.strip().lower() == "true"

    def one_of(self, name: str, default: _Value, allowed: tuple[_Value, ...]) -> _Value:
        value = self.text(name)
        if value is None:
            return default
        chosen = next((choice for choice in allowed if str(choice).lower() == value.strip().lower()), None)
        if chosen is None:
            raise OptionError(f"option {name}: {value!r} must be one of {', '.join(map(str, allowed))}")
        return chosen


_OF_TABLES = frozenset({"location", "owner", "provider", "external", "is_managed_location", "comment", "collation"})
"""The properties that Spark passes for a table of its catalog, instead of the options that the table was given."""

WITHOUT_TABLES = (
    "CREATE TABLE, saveAsTable and INSERT INTO do not work, because Spark does not hand a table's options to a Python"
    " data source. To read: CREATE TEMPORARY VIEW … USING offsetfs OPTIONS (path '/var/lib/kafka/data')."
    " To write: frame.write.format('offsetfs').mode('append').option('topic', …).save('/var/lib/kafka/data')"
)


def is_of_a_table(options: Mapping[str, str]) -> bool:
    """Return whether Spark asks for a table of its catalog: then the options are the table's properties."""
    return any(name.lower() in _OF_TABLES for name in options)


def _hint(name: str) -> str:
    if name.lower() == "kafka.bootstrap.servers":
        return ": there is no broker here; pass the log directory to load()"
    if name.lower() in (option.lower() for option in _BATCH_ONLY):
        return " in a stream, which has no end"
    if name.lower() in (option.lower() for option in _STREAM_ONLY):
        return " outside of a stream"
    return ""


def _paths(given: _Given) -> tuple[str, ...]:
    """Return what load() was given: a path or URL, several, or several in one text, as Kafka's `log.dirs` has them."""
    single = given.text("path")
    texts = [str(path) for path in json.loads(given.text("paths") or "[]")] or ([single] if single else [])
    locations = [location(path) for text in texts for path in _split(text)]
    if not locations:
        raise OptionError(f"no log directory: pass its path to load(). {WITHOUT_TABLES}")
    return tuple(dict.fromkeys(locations))


def _split(text: str) -> list[str]:
    """Return the paths of a list with commas. An existing path that contains commas is one path."""
    if "://" not in text and os.path.exists(location(text)):
        return [text]
    return [path.strip() for path in text.split(",") if path.strip()]


def location(text: str) -> str:
    """Return an absolute path, or a URL of object storage as all commands write it. `OptionError` for another URL."""
    if urls.is_remote(text):
        return urls.normalized(text)
    path = text.removeprefix("file://")
    if "://" in path:
        known = ", ".join(f"{scheme}://" for scheme in urls.PACKAGES)
        raise OptionError(f"{text}: no such place for logs; give a directory, or an archive at {known}")
    return os.path.abspath(path)


def local_path(text: str, use: str) -> str:
    """Return an absolute path. `OptionError` for a URL; `use` names what needs a directory, such as "a write"."""
    path = location(text)
    if urls.is_remote(path):
        raise OptionError(
            f"{text}: {use} needs a directory that the driver and all executors see under one path;"
            " archives in object storage are only read here, and written by offsetfs archive"
        )
    return path


def _selection(given: _Given) -> Selection:
    named = [name for name in ("subscribe", "subscribePattern", "assign") if given.text(name) is not None]
    if len(named) > 1:
        raise OptionError(f"options {' and '.join(named)} contradict each other: give one of them")
    if given.text("assign") is not None:
        return Selection(partitions=tuple(_assigned(given)))
    pattern = given.text("subscribePattern")
    if pattern is not None:
        try:
            NamePattern(pattern)
        except PatternError as error:
            raise OptionError(f"option subscribePattern: {pattern!r} is not a regular expression ({error})") from None
        return Selection(pattern=pattern)
    topics = tuple(topic.strip() for topic in (given.text("subscribe") or "").split(",") if topic.strip())
    if not topics and given.text("subscribe") is not None:
        raise OptionError("option subscribe: no topic is named; write topics such as orders,users")
    return Selection(topics=topics)


def _assigned(given: _Given) -> list[tuple[str, int]]:
    assigned = _json_object(given, "assign")
    pairs = [(topic, number) for topic, numbers in assigned.items() if isinstance(numbers, list) for number in numbers]
    if not pairs or not all(isinstance(number, int) and number >= 0 for _, number in pairs):
        raise OptionError('option assign must be a JSON object such as {"orders":[0,1]}')
    return pairs


def _start(given: _Given, is_stream: bool | None) -> Bound:
    bound = _bound(given, "starting", EARLIEST)
    if is_stream is False and (bound.default == LATEST or LATEST in (bound.offsets or {}).values()):
        raise OptionError("option startingOffsets: latest leaves nothing to read, except in a stream; use earliest")
    return bound


def _bound(given: _Given, which: Ends, default: int) -> Bound:
    name = f"{which}Offsets"
    text = given.text(name)
    offsets = None
    if text is not None and text.strip().lower() in ("earliest", "latest"):
        default = EARLIEST if text.strip().lower() == "earliest" else LATEST
    elif text is not None:
        offsets = _by_partition(given, name, EARLIEST)
    if which == "ending" and (default == EARLIEST or EARLIEST in (offsets or {}).values()):
        raise OptionError("option endingOffsets: earliest leaves nothing to read; use latest")
    timestamps = f"{which}OffsetsByTimestamp"
    return Bound(
        default,
        offsets,
        _timestamp(given, f"{which}Timestamp"),
        None if given.text(timestamps) is None else _by_partition(given, timestamps, 0),
    )


def _timestamp(given: _Given, name: str) -> int | None:
    text = given.text(name)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        raise OptionError(f"option {name}: {text!r} is not a time in milliseconds since 1970")
    return int(text)


def _by_partition(given: _Given, name: str, lowest: int) -> ByPartition:
    wrong = f'option {name}: the value must be a JSON object such as {{"orders":{{"0":23,"1":7}}}}'
    bounds: ByPartition = {}
    for topic, numbers in _json_object(given, name).items():
        if topic in (TOPIC_IDS, COLUMNS, KEY_COLUMNS):
            continue  # of a checkpoint
        if not isinstance(numbers, dict):
            raise OptionError(wrong)
        for partition, number in numbers.items():
            is_number = isinstance(number, int) and not isinstance(number, bool) and number >= lowest
            if not is_number or not partition.isdigit():
                raise OptionError(wrong)
            bounds[topic, int(partition)] = number
    return bounds


def _json_object(given: _Given, name: str) -> dict[str, Any]:
    text = given.text(name) or ""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError(f"option {name}: {text!r} is not a JSON object")
    return value


def _trigger_min(given: _Given) -> int | None:
    least, most = given.number("minOffsetsPerTrigger"), given.number("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"options minOffsetsPerTrigger, {least}, and maxOffsetsPerTrigger, {most}, contradict each other"
        )
    return least


def _trigger_delay_ms(given: _Given) -> int:
    text = given.text("maxTriggerDelay")
    if text is None:
        return TRIGGER_DELAY_MAX_MS
    try:
        return duration_ms(text)
    except ValueError:
        raise OptionError(f"option maxTriggerDelay: {text!r} is not a time; write 30s or 15m") from None


def duration_ms(text: str) -> int:
    """Return the milliseconds of a text such as `30s`, `15m`, or `500`; ValueError."""
    match = re.fullmatch(r"([0-9]{1,12})\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS_MS:
        raise ValueError(text)
    return int(match[1]) * _UNITS_MS[match[2]]


def _without_blank(size: str) -> str:
    """Return a size such as `500 M` without the blank before its unit, as Spark's users write it."""
    return re.sub(r"\s+(?=[a-zA-Z]+\Z)", "", size.strip())


def _access(given: _Given) -> ArchiveAccess:
    cache = given.text("cache")
    if cache is not None and cache.strip().lower() == "none":
        cache = None
    elif cache is not None and not os.path.isabs(cache.removeprefix("file://")):
        raise OptionError(f"option cache: {cache!r} is neither none nor the absolute path of a directory")
    size = given.text("cacheSize")
    size_bytes = CACHE_BYTES_MAX if size is None else parse_size(_without_blank(size), "kmgt")
    if not size_bytes:
        raise OptionError(f"option cacheSize: {size!r} is not a size; write 500M or 2G")
    return ArchiveAccess(
        cache=cache and cache.removeprefix("file://"),
        cache_bytes_max=size_bytes,
        timeout_s=float(given.number("timeout") or IN_MEMORY.timeout_s),
    )


def _decodes(given: _Given) -> bool:
    wanted = given.one_of("decode", "none", ("none", "auto")) == "auto"
    if not wanted and any(map(given.text, ("schemas", "schemaRegistry", "schemaLocation", "mask"))):
        raise OptionError("options schemas, schemaRegistry, schemaLocation and mask: go with decode=auto")
    return wanted


def _schema_location(given: _Given) -> str | None:
    text = given.text("schemaLocation")
    return location(text) if text else None


def _words(given: _Given, name: str, separator: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in (given.text(name) or "").split(separator) if word.strip())


def _is_committed_only(given: _Given) -> bool:
    levels = {
        name: given.one_of(name, READ_UNCOMMITTED, (READ_UNCOMMITTED, READ_COMMITTED))
        for name in ("isolation", "kafka.isolation.level")
        if given.text(name) is not None
    }
    if len(set(levels.values())) > 1:
        raise OptionError("options isolation and kafka.isolation.level contradict each other; give one of them")
    return READ_COMMITTED in levels.values()
