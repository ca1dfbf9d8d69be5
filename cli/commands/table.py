"""`offsetfs table`: topics of a log directory as rows of a database, and back."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import attached, is_archive
from offsetfs.cli.arguments.clusters import name_patterns, topic_option
from offsetfs.cli.arguments.named_partitions import no_topic
from offsetfs.cli.arguments.numbers import SECONDS_MS, duration_type, size_type
from offsetfs.cli.arguments.schema_registry import registry_of
from offsetfs.cli.arguments.topic_settings import parsed_settings, topic_settings_option
from offsetfs.cli.exit_codes import DONE, FAILED, SYSTEM, WRONG_CALL, Failure
from offsetfs.common.ending import until_signal
from offsetfs.common.extras import install_command
from offsetfs.common.formatting import printable
from offsetfs.storage.errors import StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.common.name_patterns import NamePattern
    from offsetfs.schemas.masks import Masks
    from offsetfs.schemas.registry_schemas import RegistrySchemas
    from offsetfs.schemas.schema_files import FileSchema
    from offsetfs.storage import LogDirectory
    from offsetfs.tables.databases.decoding import TableDecoding
    from offsetfs.tables.databases.messages_table import MessagesTable
    from offsetfs.tables.databases.syncing import SyncOptions, TableSync
    from offsetfs.tables.databases.table_location import DatabaseUrl
    from offsetfs.tables.lake.delta_table import DeltaTable
    from offsetfs.tables.lake.iceberg_table import IcebergTable
    from offsetfs.tables.lake.lake_columns import LakeDecoding
    from offsetfs.tables.lake.lake_location import LakeLocation
    from offsetfs.tables.lake.lake_sync import LakeSync

_PASSWORD_BYTES_MAX = 4096

_table_option = click.option(
    "--table",
    "table",
    metavar="NAME",
    default="messages",
    show_default=True,
    help="The table, or SCHEMA.TABLE; its progress is in NAME_progress.",
)


@dataclass(frozen=True, slots=True)
class _Decoding:
    """The options of a table of decoded values."""

    schema_words: tuple[str, ...]
    registry_word: str | None
    mask_words: tuple[str, ...]
    keeps_bytes: bool

    def of_database(self, directory: LogDirectory, table: MessagesTable, topic: str) -> TableDecoding:
        """Return the decoding of a topic, with its columns in the table."""
        try:
            from offsetfs.tables.databases.decoding import TableDecoding
        except ImportError as error:
            raise Failure(f"--decode needs pyarrow and numpy: {install_command('arrow')}", SYSTEM) from error
        with self._given(directory, topic) as (files, masks, registry):
            return TableDecoding(directory, table, topic, files, masks, registry)

    def of_lake(self, directory: LogDirectory, topic: str) -> LakeDecoding:
        """Return the decoding of a topic for a lakehouse table."""
        from offsetfs.tables.lake.lake_columns import LakeDecoding

        with self._given(directory, topic) as (files, masks, registry):
            return LakeDecoding(directory, topic, files, masks, registry, keeps_bytes=self.keeps_bytes)

    @contextlib.contextmanager
    def _given(
        self, directory: LogDirectory, topic: str
    ) -> Iterator[tuple[Mapping[str, FileSchema], Masks, RegistrySchemas | None]]:
        """Yield the files, masks and registry of the options. `Failure`."""
        from offsetfs.schemas.masks import MaskError, parse_masks
        from offsetfs.schemas.schema_files import SchemaFileError, read_schema_files

        if topic not in {name.topic for name in directory.partitions()}:
            raise no_topic(directory.path, directory.partitions(), (topic,))
        registry = registry_of(self.registry_word)
        try:
            yield read_schema_files(self.schema_words), parse_masks(self.mask_words), registry
        except (SchemaFileError, OSError) as error:
            raise Failure(f"--schema: {printable(sentence(error))}", WRONG_CALL) from error
        except MaskError as error:
            raise Failure(printable(str(error)), WRONG_CALL) from error


@click.group("table", short_help="Topics as rows of a database or lakehouse table, and back.")
def command() -> None:
    """Copy topics into a table of PostgreSQL, SQLite, MySQL, MariaDB, Apache Iceberg or Delta Lake, a row for each
    record, and rows of a database into a log.

    SQLite needs nothing more; other databases need `pip install 'offsetfs[tables]'`, lakehouse tables
    `offsetfs[iceberg]` or `offsetfs[delta]`.

    \b
    offsetfs table sync /var/lib/kafka/data sqlite:///orders.db --topic orders --create
    offsetfs table sync ~/mirror postgresql://app@db/events --topic 'orders|users.*' --follow
    offsetfs table sync ~/mirror iceberg:/data/lake --topic orders --create --decode
    offsetfs table load postgresql://app@db/events ~/restored

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused, or not everything was copied.
    """


@command.command("sync", short_help="Keep a table in step with topics.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("url", metavar="URL")
@topic_option
@_table_option
@click.option("--create", is_flag=True, help="Create the table, its indexes, and the file of SQLite.")
@click.option(
    "--columns", metavar="NAMES", help="Only these columns, separated by commas; topic, partition and offset always."
)
@click.option("--no-index", is_flag=True, help="With --create: without the indexes on key and time.")
@click.option("--follow", is_flag=True, help="Add records as they are written, until SIGTERM or Ctrl-C.")
@click.option("--mirror-deletes", is_flag=True, help="Remove rows whose records the log no longer has.")
@click.option(
    "--isolation",
    type=click.Choice(("read_committed", "read_uncommitted")),
    default="read_committed",
    show_default=True,
    help="Whether records of open and aborted transactions are rows.",
)
@click.option(
    "--on-gap",
    type=click.Choice(("fail", "skip")),
    default="fail",
    show_default=True,
    help="Lost or damaged records: stop, or go on.",
)
@click.option(
    "--uuid",
    "uuid",
    type=click.Choice(("producer", "offset")),
    default="producer",
    show_default=True,
    help="What message_uuid is made of, for idempotent producers.",
)
@click.option(
    "--decode",
    is_flag=True,
    help="A column for each field of the values, by their schema; added when the schema grows. One topic.",
)
@click.option(
    "--schema",
    "schema_words",
    metavar="NAME=FILE|DIR",
    multiple=True,
    help="With --decode: a schema in a file, or files of a directory; may be repeated.",
)
@click.option(
    "--schema-registry",
    "registry_word",
    metavar="URL|FILE",
    help="With --decode: a registry for schemas that are nowhere else, or a properties file.",
)
@click.option(
    "--mask",
    "mask_words",
    metavar="TOPIC:FIELD[,FIELD]",
    multiple=True,
    help="With --decode: fields that are null, by path, *.NAME or #TAG; may be repeated.",
)
@click.option(
    "--keep-bytes",
    is_flag=True,
    help="With --decode: the bytes of each value as well, in value_bytes; offsetfs table load needs them.",
)
@click.option(
    "--by-day", is_flag=True, help="With --create, Iceberg and Delta Lake: partitions by the day of the record."
)
@click.option(
    "--file-size",
    "file_bytes",
    metavar="SIZE",
    type=size_type(1 << 40),
    default="256M",
    show_default=True,
    help="Iceberg, Delta Lake: the size at which a data file ends.",
)
@click.option(
    "--commit-interval",
    "interval_s",
    metavar="TIME",
    type=duration_type(SECONDS_MS, 0.1, 86_400),
    default="60s",
    show_default=True,
    help="With --follow, Iceberg and Delta Lake: how often new records are committed.",
)
@click.option("--password-file", metavar="FILE", type=click.Path(), help="Its first line is the password.")
def sync(
    log_directory: str,
    url: str,
    names: tuple[str, ...],
    table: str,
    create: bool,
    columns: str | None,
    no_index: bool,
    follow: bool,
    mirror_deletes: bool,
    isolation: str,
    on_gap: str,
    uuid: str,
    decode: bool,
    schema_words: tuple[str, ...],
    registry_word: str | None,
    mask_words: tuple[str, ...],
    keep_bytes: bool,
    by_day: bool,
    file_bytes: int,
    interval_s: float,
    password_file: str | None,
) -> int:
    """Add the records of topics to a table, a row for each. LOGDIR is only read, also beside a broker or a mount.
    Started again, it continues where it ended, also after a crash: no row is missing, and none is there twice.

    URL is postgresql://USER@HOST/DATABASE, sqlite:///FILE, or mysql://USER@HOST/DATABASE. The password is that of
    --password-file, or for PostgreSQL PGPASSWORD or ~/.pgpass; in the URL it would be visible in ps. iceberg:WAREHOUSE,
    iceberg:CATALOG and delta:TABLE are tables of Apache Iceberg and Delta Lake, with the progress in their commits.

    The progress of each partition is in the table NAME_progress. Internal topics are copied only where --topic is their
    name.

    \b
    offsetfs table sync /var/lib/kafka/data sqlite:///orders.db --topic orders --create
    offsetfs table sync ~/mirror postgresql://app@db/events --topic 'orders|users.*' --follow
    offsetfs table sync ~/mirror mysql://app@db/events --password-file secret --columns message_key,payload
    offsetfs table sync ~/mirror sqlite:///o.db --topic orders --create --decode --keep-bytes
    offsetfs table sync ~/mirror iceberg:/data/lake --topic orders --table sales.orders --create --decode --by-day
    offsetfs table sync ~/mirror delta:/data/orders --topic orders --follow --commit-interval 5m
    sqlite3 orders.db 'SELECT count(*), max(message_offset) FROM messages'

    Exit codes: 1 wrong call or permissions, 2 system error, 32 the database or a partition could not be used; the
    message gives the reason.
    """
    from offsetfs.tables.databases.layout import DECODING_ERROR, VALUE_BYTES, TableError, columns_of_names
    from offsetfs.tables.databases.syncing import SyncOptions

    if no_index and not create:
        raise Failure("--no-index: goes with --create", WRONG_CALL)
    words = _Decoding(schema_words, registry_word, mask_words, keep_bytes) if decode else None
    if (schema_words or registry_word or mask_words) and not decode:
        raise Failure("--schema, --schema-registry and --mask: go with --decode", WRONG_CALL)
    if keep_bytes and (not decode or mask_words):
        reason = "shows what --mask hides: leave one out" if mask_words else "goes with --decode"
        raise Failure(f"--keep-bytes: {reason}", WRONG_CALL)
    if decode and (columns is not None or len(names) != 1):
        remedy = "give one --topic, and no --columns"
        raise Failure(f"--decode: a table has the fields of one topic; {remedy}", WRONG_CALL)
    options = SyncOptions(
        name_patterns("--topic", (re.escape(names[0]),) if decode else names or (".*",)),
        is_committed_only=isolation == "read_committed",
        skips_gaps=on_gap == "skip",
        mirrors_deletes=mirror_deletes,
        uses_producers=uuid == "producer",
    )
    location = _lake_location(url)
    if location is not None:
        return _sync_lake(
            log_directory,
            location,
            options,
            names,
            words,
            table_name=table,
            may_create=create,
            is_by_day=by_day,
            file_bytes=file_bytes,
            interval_s=interval_s if follow else None,
        )
    try:
        wanted = (*columns_of_names(columns), *([DECODING_ERROR] * decode), *([VALUE_BYTES] * keep_bytes))
    except TableError as error:
        raise Failure(printable(str(error)), WRONG_CALL) from error
    _check_order(log_directory)
    log_directory = attached(log_directory)
    preflight.check_directory(log_directory, read_only=True, may_be_empty=False)
    remedy = "--create creates it"
    with (
        _reported(),
        _opened(url, password_file, table, log_directory, wanted, may_create=create, remedy=remedy) as opened,
    ):
        if create:
            opened.create(is_indexed=not no_index)
        opened.check()
        return _sync(log_directory, opened, options, names, words, follow=follow)


@command.command("load", short_help="Rows back into a log.")
@click.argument("url", metavar="URL")
@click.argument("log_directory", metavar="LOGDIR")
@topic_option
@_table_option
@topic_settings_option("A setting of the new topics; may be repeated.")
@click.option("--password-file", metavar="FILE", type=click.Path(), help="Its first line is the password.")
def load(
    url: str,
    log_directory: str,
    names: tuple[str, ...],
    table: str,
    settings: tuple[str, ...],
    password_file: str | None,
) -> int:
    """Make topics of the rows of a table that offsetfs table sync has filled: the same partitions, offsets with their
    gaps, times, keys, values and headers. A topic that has records in LOGDIR is refused, and so is a table of decoded
    values without --keep-bytes.

    LOGDIR is created if it is not there. After a crash or an error, the same command continues where it ended; until it
    has ended, the new topics are incomplete.

    \b
    offsetfs table load sqlite:///orders.db ~/restored
    offsetfs table load postgresql://app@db/events ~/restored --topic 'users.*' -o compression.type=zstd
    offsetfs mount ~/restored /mnt -o ro

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    _check_order(log_directory)
    properties = parsed_settings(settings)
    patterns = name_patterns("--topic", names or (".*",))
    remedy = "give a file that offsetfs table sync has filled"
    with _reported(), _opened(url, password_file, table, log_directory, may_create=False, remedy=remedy) as opened:
        opened.check_content()
        preflight.make_missing(log_directory)
        preflight.check_directory(log_directory, read_only=False, may_be_empty=True, may_begin=True)
        return _load(log_directory, opened, patterns, properties)


def _check_order(log_directory: str) -> None:
    """Refuse the URL of a database in the place of LOGDIR, without showing it: it may have a password."""
    if "://" in log_directory and not is_archive(log_directory):
        raise Failure("LOGDIR is the URL of a database: write the two arguments the other way round", WRONG_CALL)


def _load(
    log_directory: str, table: MessagesTable, patterns: Sequence[NamePattern], settings: Mapping[str, str]
) -> int:
    from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
    from offsetfs.cli.terminal.progress import bytes_progress, open_for_writing
    from offsetfs.storage.errors import LogDirectoryLocked
    from offsetfs.tables.databases.loading import load_table, read_journal, unfinished_topics

    try:
        directory = open_for_writing(log_directory)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT_FIRST) from error
    with contextlib.closing(directory), bytes_progress("Loading") as show:
        begun = read_journal(directory.path)
        try:
            loaded = load_table(directory, table, patterns, settings, on_progress=lambda done: show(done, done))
        except OSError as error:
            remedy = "what is loaded stays, and the same command goes on there"
            raise Failure(f"{printable(sentence(error))}; {remedy}", SYSTEM) from error
    incomplete = unfinished_topics(begun.topics if begun else (), loaded)
    if incomplete:
        _warn(f"{', '.join(incomplete)} is still incomplete: a load before has begun it; run it without --topic")
    for topic, counts in loaded.items():
        click.echo(f"{topic}: {counted(len(counts), 'partition')}, {counted(sum(counts), 'record')}")
    return DONE


def _sync(
    log_directory: str,
    table: MessagesTable,
    options: SyncOptions,
    names: tuple[str, ...],
    words: _Decoding | None,
    *,
    follow: bool,
) -> int:
    from offsetfs.cli.terminal.progress import bytes_progress
    from offsetfs.storage import LogDirectory
    from offsetfs.tables.databases.syncing import TableSync

    directory = LogDirectory.open(log_directory, read_only=True)
    decoding = None if words is None else words.of_database(directory, table, names[0])
    with bytes_progress("Synchronizing") as show:
        synced = TableSync(directory, table, options, _warn, show, decoding)
        if follow:
            with until_signal() as is_ending:
                synced.follow(is_ending)
        else:
            synced.run()
            if not synced.partitions and not synced.has_failed:
                raise no_topic(directory.path, directory.partitions(), names)
    _report(
        (synced_partition.partition.topic, synced_partition.rows, synced_partition.deleted)
        for synced_partition in synced.partitions.values()
    )
    return _ended(synced, {} if decoding is None else decoding.not_decoded, "value_error")


_OF_DATABASES = ("columns", "no_index", "mirror_deletes", "uuid", "password_file")
_OF_LAKES = ("by_day", "file_bytes", "interval_s")


def _lake_location(url: str) -> LakeLocation | None:
    """Return the place of a lakehouse table; None for a database. `Failure` for options that it does not have."""
    from offsetfs.tables.databases.layout import TableError
    from offsetfs.tables.lake.lake_location import DELTA, parse_lake_location

    try:
        location = parse_lake_location(url)
    except TableError as error:
        raise Failure(printable(str(error)), WRONG_CALL) from error
    context = click.get_current_context()
    given = {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name and context.get_parameter_source(parameter.name) is not click.core.ParameterSource.DEFAULT
    }
    for name in _OF_LAKES if location is None else _OF_DATABASES:
        if name in given:
            raise Failure(
                f"{given[name]}: {'goes' if location is None else 'does not go'} with iceberg: and delta:", WRONG_CALL
            )
    if location is not None and location.format == DELTA and "table" in given:
        raise Failure("--table: the place of delta: is that of the table; leave --table out", WRONG_CALL)
    return location


def _sync_lake(
    log_directory: str,
    location: LakeLocation,
    options: SyncOptions,
    names: tuple[str, ...],
    words: _Decoding | None,
    *,
    table_name: str,
    may_create: bool,
    is_by_day: bool,
    file_bytes: int,
    interval_s: float | None,
) -> int:
    """Synchronize a lakehouse table. `interval_s`: of the commits of a sync that follows."""
    from offsetfs.cli.terminal.progress import bytes_progress
    from offsetfs.storage import LogDirectory

    try:
        from offsetfs.tables.lake.lake_columns import RAW
        from offsetfs.tables.lake.lake_sync import LakeSync

        table = _lake_table(location, table_name)
    except ImportError as error:
        raise Failure(f"{location.format}: needs {error.name}: {install_command(location.format)}", SYSTEM) from error
    _check_order(log_directory)
    log_directory = attached(log_directory)
    preflight.check_directory(log_directory, read_only=True, may_be_empty=False)
    _check_file(location.directory, log_directory)
    with _reported():
        directory = LogDirectory.open(log_directory, read_only=True)
        decoding = None if words is None else words.of_lake(directory, names[0])
        columns = RAW if decoding is None else decoding.columns
        table.open(columns, None if decoding is None else decoding.topic, may_create=may_create, is_by_day=is_by_day)
        with bytes_progress("Synchronizing") as show:
            synced = LakeSync(directory, table, options, file_bytes, _warn, show, decoding)
            if interval_s is None:
                synced.run()
                if not synced.partitions and not synced.has_failed:
                    raise no_topic(directory.path, directory.partitions(), names)
            else:
                with until_signal() as is_ending:
                    synced.follow(is_ending, interval_s)
    _report(
        (synced_partition.partition.topic, synced_partition.rows, 0) for synced_partition in synced.partitions.values()
    )
    return _ended(synced, {} if decoding is None else {"value": decoding.not_decoded}, "_error")


def _lake_table(location: LakeLocation, name: str) -> IcebergTable | DeltaTable:
    from offsetfs.tables.databases.layout import TableError
    from offsetfs.tables.databases.table_location import parse_table_name
    from offsetfs.tables.lake.lake_location import DELTA

    if location.format == DELTA:
        from offsetfs.tables.lake.delta_table import DeltaTable

        return DeltaTable(location)
    from offsetfs.tables.lake.iceberg_table import IcebergTable

    try:
        parsed = parse_table_name(name, location.format)
    except TableError as error:
        raise Failure(printable(str(error)), WRONG_CALL) from error
    return IcebergTable(location, parsed)


def _ended(synced: TableSync | LakeSync, not_decoded: Mapping[str, int], column: str) -> int:
    """Report values and keys that are not decoded, and return the exit code. `column` has the reasons."""
    for noun, count in not_decoded.items():
        if count:
            _warn(f"{counted(count, noun)} not decoded; {column} has the reasons")
    return FAILED if synced.has_failed else DONE


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Turn what the database, the log directory and the disk refuse into a `Failure`."""
    from offsetfs.tables.databases.layout import TableError

    try:
        yield
    except (TableError, StorageError) as error:
        is_missing = isinstance(error.__cause__, ImportError)
        raise Failure(printable(sentence(error)), SYSTEM if is_missing else FAILED) from error


@contextlib.contextmanager
def _opened(
    url: str,
    password_file: str | None,
    table: str,
    log_directory: str,
    columns: Sequence[str] | None = None,
    *,
    may_create: bool,
    remedy: str,
) -> Iterator[MessagesTable]:
    from offsetfs.tables.databases.database import open_database
    from offsetfs.tables.databases.layout import COLUMNS, TableError
    from offsetfs.tables.databases.messages_table import MessagesTable
    from offsetfs.tables.databases.table_location import parse_table_name

    try:
        parsed = _url(url, password_file)
        parse_table_name(table, parsed.scheme)
    except TableError as error:
        raise Failure(printable(str(error)), WRONG_CALL) from error
    _check_file(parsed.path, log_directory)
    database = open_database(parsed, may_create=may_create, remedy=remedy)
    with contextlib.closing(database):
        yield MessagesTable(database, table, columns or COLUMNS)


def _check_file(path: str, log_directory: str) -> None:
    """Refuse a file of SQLite in the log directory: an empty segment, which SQLite would fill, is one, too."""
    if not path or is_archive(log_directory):
        return
    inside = os.path.realpath(log_directory)
    if os.path.commonpath([inside, os.path.realpath(path)]) == inside:
        raise Failure(f"{printable(path)} is in the log directory; choose a file outside of it", WRONG_CALL)


def _url(text: str, password_file: str | None) -> DatabaseUrl:
    from offsetfs.tables.databases.table_location import parse_url

    password = None if password_file is None else _password(password_file)
    database_url = parse_url(text, password)
    if database_url.password is not None and password is None:
        _warn("the password in the URL is visible in ps; --password-file is not")
    return database_url


def _password(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline(_PASSWORD_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"--password-file: {sentence(error)}", WRONG_CALL) from error


def _report(synced: Iterable[tuple[str, int, int]]) -> None:
    """Print a line for each topic. `synced`: the topic of each partition, and how many rows were added and deleted."""
    topics: dict[str, list[int]] = {}
    for topic, added, removed in synced:
        counts = topics.setdefault(topic, [0, 0, 0])
        counts[0] += 1
        counts[1] += added
        counts[2] += removed
    for topic, (partitions, rows, deleted) in topics.items():
        less = f", {counted(deleted, 'row')} deleted" if deleted else ""
        click.echo(f"{topic}: {counted(partitions, 'partition')}, {counted(rows, 'row')} added{less}")


def _warn(text: str) -> None:
    click.echo(f"{click.get_current_context().command_path}: {printable(text)}", err=True)
