"""`offsetfs find`: find records by key, text, pattern or header."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.cluster_options import ClusterQuestion, cluster_options
from offsetfs.cli.arguments.named_partitions import resolve_among
from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.arguments.where import Schemas, decoded_lines_of, masks_of, searching_where
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure, of_output
from offsetfs.common.formatting import printable
from offsetfs.storage import READ_COMMITTED, READ_UNCOMMITTED
from offsetfs.storage.directory import left_out_message
from offsetfs.storage.errors import sentence

if TYPE_CHECKING:
    from offsetfs.answers.find import FindBounds, Limit, Search
    from offsetfs.answers.find_conditions import Condition
    from offsetfs.answers.find_lines import LinesOf
    from offsetfs.storage import AnyLogDirectory, TopicPartition

SCHEMAS_TOPIC = "_schemas"
"""The topic of a cluster in which its registry stores schemas."""

NOTHING_FOUND = 1
"""The exit code if no record matches, as of grep. It equals `WRONG_CALL`, which prints a message."""

_PARTITIONERS = ("murmur2", "crc32", "fnv1a", "any")
_FIELDS = ("value", "key", "headers", "any")


@click.command("find", short_help="Find records by key, text, pattern or header.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="[TOPIC|TOPIC-PARTITION]...", nargs=-1)
@click.option("--key", metavar="KEY", help="The record has this key; only the partition of the key is searched.")
@click.option("--key-base64", metavar="BASE64", help="The same, for a key of any bytes.")
@click.option(
    "--partitioner",
    type=click.Choice(_PARTITIONERS),
    default="murmur2",
    show_default=True,
    help="How producers choose the partition: murmur2 as Java, crc32 as librdkafka, fnv1a as Sarama; any: search all.",
)
@click.option("--partitions", "count", metavar="N", type=click.IntRange(1), help="How many partitions the topic has.")
@click.option("--text", "texts", metavar="WORDS", multiple=True, help="The record contains this text.")
@click.option("--regex", "patterns", metavar="REGEX", multiple=True, help="A regular expression of RE2 matches.")
@click.option(
    "--in",
    "place",
    type=click.Choice(_FIELDS),
    default="value",
    show_default=True,
    help="Where --text and --regex look.",
)
@click.option("-i", "--ignore-case", is_flag=True, help="--text and --regex ignore case.")
@click.option("--header", "headers", metavar="NAME[=VALUE]", multiple=True, help="There is a header of this name.")
@click.option(
    "--where", metavar="CONDITION", help="A condition in SQL on fields of decoded values, or on key, value_json…"
)
@click.option("--from", "start", metavar="WHEN", help="Only records from this offset or time on.")
@click.option("--to", "end", metavar="WHEN", help="Only records before this offset or time.")
@click.option("--first", metavar="N", type=click.IntRange(1), help="The oldest N of the first N of each partition.")
@click.option(
    "--last", metavar="N", type=click.IntRange(1), help="The newest N of the last N of each partition, newest first."
)
@click.option("--count", "is_count", is_flag=True, help="Print the number of records only.")
@click.option("--paths", "is_paths", is_flag=True, help="Print paths of the tree, such as orders-3/42.")
@click.option("--values", "is_values", is_flag=True, help="Print values, one per line.")
@click.option("--decoded", "is_decoded", is_flag=True, help="Print records with values decoded by their schemas.")
@click.option(
    "--schema",
    "schema_words",
    metavar="NAME=FILE|DIR",
    multiple=True,
    help="A schema in a file, or files of a directory, for --where and --decoded; may be repeated.",
)
@click.option(
    "--schema-registry",
    "registry_word",
    metavar="URL|FILE",
    help="A registry for schemas that are nowhere else, or a properties file with schema.registry.url.",
)
@click.option(
    "--mask",
    "mask_words",
    metavar="TOPIC:FIELD[,FIELD]",
    multiple=True,
    help="Fields that are null for --where and --decoded, by path, *.NAME or #TAG; may be repeated.",
)
@click.option(
    "--isolation",
    type=click.Choice((READ_UNCOMMITTED, READ_COMMITTED)),
    default=READ_UNCOMMITTED,
    show_default=True,
    help="Whether records of open and aborted transactions are searched.",
)
@cluster_options
def command(
    log_directory: str,
    names: tuple[str, ...],
    key: str | None,
    key_base64: str | None,
    partitioner: str,
    count: int | None,
    texts: tuple[str, ...],
    patterns: tuple[str, ...],
    place: str,
    ignore_case: bool,
    headers: tuple[str, ...],
    where: str | None,
    start: str | None,
    end: str | None,
    first: int | None,
    last: int | None,
    is_count: bool,
    is_paths: bool,
    is_values: bool,
    is_decoded: bool,
    schema_words: tuple[str, ...],
    registry_word: str | None,
    mask_words: tuple[str, ...],
    isolation: str,
) -> int:
    """Print the records of topics that meet all conditions, as lines of JSON, partition by partition, in offset order.

    LOGDIR is a log directory, several (A,B), a server.properties, an archive URL or a cluster (kafka://HOST:PORT/),
    whose topics are copied first, from --from on. Without a topic all but internal ones are searched. Records are
    printed as soon as they are found. Control batches are not searched. Damaged batches are left out and reported on
    stderr.

    --from and --to take offsets of one partition, or times; a record between two times is found wherever it is. The
    regular expressions are those of RE2, over UTF-8: \\C is any byte, (?s) lets a dot match newlines.

    \b
    offsetfs find /var/lib/kafka/data orders --key customer-17
    offsetfs find /var/lib/kafka/data orders --key customer-17 --partitioner crc32 --last 1
    offsetfs find /var/lib/kafka/data --text 4111-1111 --in any --paths
    offsetfs find /var/lib/kafka/data orders payments --regex 'status":"(refused|lost)"' --from -2h
    offsetfs find /var/lib/kafka/data orders-3 --header trace-id=4bf92f35 --from 1200 --to 1800
    offsetfs find /var/lib/kafka/data orders --where 'amount > 100' --decoded
    offsetfs find /var/lib/kafka/data orders --where "value->>'status' = 'lost'" --last 10
    offsetfs find s3://backup/kafka orders --text refused -i --count
    offsetfs find kafka://broker1:9092/ orders --key customer-17 --from -1d

    Exit codes: 1 wrong call, or no record matches; 2 system error, 8 interrupted, 32 a part of a log could not be read.
    """
    form = _Form(is_count, is_paths, is_values, is_decoded, first, last)
    masks = masks_of(
        mask_words,
        shows_values=not (is_decoded or is_count or is_paths),
        searches_values=bool(texts or patterns) and place in ("value", "any"),
    )
    from offsetfs.answers.find_texts import bounds_of, conditions_of, key_of

    with _texts():
        wanted = key_of(key, key_base64)
        conditions = conditions_of(wanted, texts, patterns, place, headers, ignores_case=ignore_case)
    key_place = None if wanted is None else _KeyPlace(wanted, partitioner, count)
    question = _question(names, start, end, key_place, has_schemas=is_decoded or where is not None)
    with opened_source(log_directory, question=question) as directory:
        chosen = _chosen(directory, log_directory, names, key_place)
        for note in chosen.notes:
            _say(note)
        with _texts():
            bounds = bounds_of(start, end, chosen.partitions)
        search = _search(directory, chosen.partitions, conditions, bounds, isolation)
        schemas = Schemas(schema_words, registry_word, masks)
        with contextlib.nullcontext() if where is None else searching_where(search, where, isolation, schemas):
            form.run(search, schemas)
        failures = directory.failures
    return _ended(search, chosen.is_narrowed, failures)


def _ended(search: Search, is_narrowed: bool, failures: Mapping[str, Exception]) -> int:
    """Report what was left out, also directories that could not be opened; return the exit code."""
    for path, reason in failures.items():
        _say(left_out_message(path, reason))
    for note in search.notes:
        _say(note)
    for error in search.damage:
        _say(f"left out: {sentence(error)}")
    if search.damaged > len(search.damage):
        _say(f"left out: {search.damaged - len(search.damage)} more damaged places; offsetfs verify lists them")
    if not search.found and is_narrowed:
        _say(
            "not found there; --partitioner any searches all partitions, of a cluster it copies them: a producer may"
            " hash keys otherwise, or the topic had fewer partitions"
        )
    if search.damaged or failures:
        return FAILED
    return DONE if search.found else NOTHING_FOUND


def _say(text: str) -> None:
    click.echo(f"offsetfs find: {printable(text)}", err=True)


@dataclass(frozen=True, slots=True)
class _Form:
    """What is printed."""

    is_count: bool
    is_paths: bool
    is_values: bool
    is_decoded: bool
    first: int | None
    last: int | None

    def __post_init__(self) -> None:
        if self.is_count + self.is_paths + self.is_values + self.is_decoded > 1:
            raise Failure("--count, --paths, --values and --decoded exclude each other: give one of them", WRONG_CALL)
        limits = [name for name, value in (("--first", self.first), ("--last", self.last)) if value is not None]
        if len(limits) > 1 or (limits and self.is_count):
            others = " and ".join([*limits, *(["--count"] if self.is_count else [])])
            raise Failure(f"{others} exclude each other: give one of them", WRONG_CALL)

    @property
    def limit(self) -> Limit | None:
        from offsetfs.answers.find import Limit

        if self.first is not None:
            return Limit(self.first)
        return None if self.last is None else Limit(self.last, is_newest=True)

    def _lines_of(self, search: Search, schemas: Schemas) -> LinesOf:
        from offsetfs.answers.find_lines import path_lines, record_lines, value_lines

        if self.is_decoded:
            return decoded_lines_of(search.directory, schemas)
        return path_lines if self.is_paths else value_lines if self.is_values else record_lines

    def run(self, search: Search, schemas: Schemas) -> None:
        """Run a search, and print what it finds."""
        from offsetfs.cli.terminal.progress import bytes_progress

        lines_of = self._lines_of(search, schemas)
        with bytes_progress("Searching") as search.on_progress:
            if self.is_count:
                _write([f"{search.count()}\n".encode()])
                return
            with contextlib.closing(search.lines(lines_of, self.limit)) as found:
                for lines in found:
                    _write(lines)


def _write(lines: Iterable[bytes]) -> None:
    try:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"standard output: {error.strerror or error}", of_output(error)) from error


# --- where -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The partitions that are searched."""

    partitions: Sequence[TopicPartition]
    notes: Sequence[str] = ()
    is_narrowed: bool = False


@dataclass(frozen=True, slots=True)
class _KeyPlace:
    """Where a key is looked for. `count`: the number of partitions of a topic, if not all of them are there."""

    key: bytes
    partitioner: str
    count: int | None

    def among(self, named: Iterable[TopicPartition], names: Sequence[str]) -> _Chosen:
        """Return, of partitions that `names` select, those that are named themselves, and of topics that of the key."""
        from offsetfs.answers.find_partitions import partitions_of_key
        from offsetfs.answers.partitioners import Partitioner

        present = sorted(named)
        single = [each for each in present if str(each) in names]
        of_topics = [each for each in present if str(each) not in names]
        topics = dict.fromkeys(each.topic for each in of_topics)
        found = partitions_of_key(present, topics, self.key, Partitioner(self.partitioner), self.count)
        return _Chosen(list(dict.fromkeys([*single, *found.partitions])), found.notes, found.is_narrowed)


def _chosen(
    directory: AnyLogDirectory, log_directory: str, names: Sequence[str], key_place: _KeyPlace | None
) -> _Chosen:
    """Return the partitions that the arguments name, and of topics only that of the key."""
    from offsetfs.answers.find_texts import own_partitions

    present = sorted(directory.partitions())
    if names:
        try:
            named = resolve_among(log_directory, present, names)
        except Failure as error:
            if len(names) > 1 and "; " not in str(error):
                raise Failure(f"{error}; --text finds a text, --key a key", WRONG_CALL) from error
            raise
    else:
        named = own_partitions(present)
    return _Chosen(named) if key_place is None else key_place.among(named, names)


def _question(
    names: Sequence[str], start: str | None, end: str | None, key_place: _KeyPlace | None, *, has_schemas: bool
) -> ClusterQuestion:
    """Return what is read of a cluster. `--to` bounds nothing: a record of an earlier time may be behind it."""
    from offsetfs.answers.find_texts import place_of

    with _texts():
        places = {name: place_of(name, text) for name, text in (("from", start), ("to", end)) if text is not None}
    begin, is_time = places.get("from", (None, False))
    others = (SCHEMAS_TOPIC,) if has_schemas else ()
    return ClusterQuestion(
        names,
        others,
        start_ms=begin if is_time else None,
        start=None if is_time else begin,
        narrowed=None if key_place is None else lambda named: key_place.among(named, names).partitions,
    )


@contextlib.contextmanager
def _texts() -> Iterator[None]:
    """Make `WrongText` a `Failure` that names the option."""
    from offsetfs.answers.find_texts import WrongText

    try:
        yield
    except WrongText as error:
        option = f"--{error.name.replace('_', '-')}"
        raise Failure(printable(error.sentence(option)), WRONG_CALL) from error


def _search(
    directory: AnyLogDirectory,
    partitions: Sequence[TopicPartition],
    conditions: Sequence[Condition],
    bounds: FindBounds,
    isolation: str,
) -> Search:
    from offsetfs.answers.find import Search

    return Search(directory, partitions, conditions, bounds, is_committed_only=isolation == READ_COMMITTED)
