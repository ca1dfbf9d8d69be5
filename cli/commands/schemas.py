"""`offsetfs schemas`: the schemas of a log directory, without a schema registry."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from offsetfs.cli.arguments.cluster_options import ClusterQuestion, cluster_options
from offsetfs.cli.arguments.schema_registry import registry_of
from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.common.formatting import printable
from offsetfs.common.name_patterns import suggestion
from offsetfs.storage import INTERNAL_TOPICS, METADATA_TOPIC, AnyLogDirectory, check_topic
from offsetfs.storage.errors import InvalidName, StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.schemas.catalog import SchemaCatalog, SchemaVersion
    from offsetfs.schemas.registry_schemas import RegistrySchemas
    from offsetfs.schemas.schema_usage import KnownSchemas
    from offsetfs.schemas.schemas_topic import SchemasTopic

SAMPLE_RECORDS = 1000
"""The newest offsets of each partition that are counted by default."""

_SAMPLE, _ALL, _NONE = "sample", "all", "none"
_LATEST, _BEYOND = "latest", "further names"
_NEAR_MAX = 5
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UNKNOWN_SHOWN_MAX = 10
_DAMAGE_SHOWN_MAX = 100


@click.command("schemas", short_help="List schemas, and print one, without a registry.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("name", metavar="[ID|SUBJECT[/VERSION]]", required=False)
@click.option(
    "--topic",
    metavar="TOPIC",
    default="_schemas",
    show_default=True,
    help="The topic in which the registry stores schemas.",
)
@click.option(
    "--usage",
    type=click.Choice((_SAMPLE, _ALL, _NONE)),
    default=_SAMPLE,
    show_default=True,
    help=f"Records whose schema is counted: the newest {SAMPLE_RECORDS} of each partition, all, or none.",
)
@click.option(
    "--schema",
    "words",
    metavar="NAME=FILE|DIR",
    multiple=True,
    help="A schema in a file, or files of a directory; may be repeated.",
)
@click.option(
    "--schema-registry",
    "registry_word",
    metavar="URL|FILE",
    help="A registry for schemas that are nowhere else, or a properties file with schema.registry.url.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@cluster_options
def command(
    log_directory: str,
    name: str | None,
    topic: str,
    usage: str,
    words: tuple[str, ...],
    registry_word: str | None,
    as_json: bool,
) -> int:
    """List the schemas in the topic _schemas of LOGDIR, and how many records name which; or print the text of one.

    No registry is needed. LOGDIR is only read, also beside a broker; it may be an archive, or a cluster, whose schemas
    and counted records are copied first.

    Deleted, removed and replaced versions are listed as long as a segment holds them, because old records need them. ID
    is the id that records name, or a GUID. SUBJECT alone is its latest version that is not deleted.

    The second list has the names of schemas in keys and values of each topic, and the first record of names that are
    unknown. With --schema NAME=FILE they are those in FILE, which ends in .avsc, .proto or .json, or in .desc or .pb if
    it has descriptors of protoc. NAME is what records name: an id, a UUID, a URI; or for records that name no schema, a
    topic, and TOPIC:key for keys. With --schema-registry, a registry is asked for ids and GUIDs that are unknown, and
    for NAME. Without it, nothing reaches into the network.

    \b
    offsetfs schemas /var/lib/kafka/data
    offsetfs schemas /var/lib/kafka/data 7
    offsetfs schemas /var/lib/kafka/data orders-value > orders.avsc
    offsetfs schemas s3://backup/kafka orders-value/2 --json
    offsetfs schemas kafka://broker1:9092/ orders-value
    offsetfs schemas /var/lib/kafka/data --usage all --schema 7=lost.avsc --schema ~/schemas

    Exit codes: 1 wrong call, no such schema, or records were left out; 2 system error, 8 interrupted, 32 the topic
    could not be read.
    """
    from offsetfs.schemas.schema_files import SchemaFileError, read_schema_files
    from offsetfs.schemas.schema_usage import KnownSchemas
    from offsetfs.schemas.schemas_topic import SCHEMAS_TOPIC, SchemasTopic, read_schemas_topic

    try:
        check_topic(topic)
    except InvalidName as error:
        raise Failure(f"--topic: {sentence(error)}", WRONG_CALL) from error
    if name is not None and words:
        raise Failure("--schema goes with the list; give no ID or SUBJECT", WRONG_CALL)
    try:
        files = read_schema_files(words)
    except (SchemaFileError, OSError) as error:
        raise Failure(f"--schema: {printable(sentence(error))}", WRONG_CALL) from error
    registry = registry_of(registry_word)
    if name is not None or usage == _NONE:
        question = ClusterQuestion([topic], may_lack=True)
    else:
        question = ClusterQuestion(others=[topic], newest=SAMPLE_RECORDS if usage == _SAMPLE else None)
    with opened_source(log_directory, question=question) as directory:
        try:
            found = read_schemas_topic(directory, topic)
        except StorageError as error:
            raise Failure(sentence(error), FAILED) from error
        if found is None:
            lacks = f"{log_directory} has no topic {topic}; --topic names the one in which the registry stores schemas"
            if (name is not None and registry is None) or topic != SCHEMAS_TOPIC:
                raise Failure(lacks, WRONG_CALL)
            click.echo(f"offsetfs schemas: warning: {printable(lacks)}", err=True)
            found = SchemasTopic()
        if name is not None:
            _show(found.catalog, registry, name, as_json)
            notes, lines = found.notes, list(_left_out(found))
        else:
            counted_records = _Counting(directory, topic, usage)
            _show_all(found, counted_records, KnownSchemas(found.catalog, files, registry), as_json)
            notes = [*found.notes, *counted_records.notes]
            lines = [*_left_out(found), *counted_records.left_out()]
    for line in (*notes, *lines):
        click.echo(f"offsetfs schemas: {printable(line)}", err=True)
    return WRONG_CALL if lines else DONE


def _left_out(found: SchemasTopic) -> Iterator[str]:
    """Yield a sentence on each kind of record that was left out, and on each damaged batch."""
    for reason, records in found.unusable.items():
        yield f"left out {counted(records.count, 'record')}, the first at {records.first}: {reason}"
    yield from (f"left out: {reason}" for reason in found.damage)
    if found.damaged > len(found.damage):
        yield f"left out: {found.damaged - len(found.damage)} more damaged batches; offsetfs verify lists them"


# --- one schema ------------------------------------------------------------------------------------------------------


def _show(catalog: SchemaCatalog, registry: RegistrySchemas | None, name: str, as_json: bool) -> None:
    version, *others = _named(catalog, registry, name)
    if as_json:
        click.echo(json.dumps({**_as_json(version), "schema": version.text}, indent=1))
    else:
        click.echo(version.text, nl=not version.text.endswith("\n"))
    for other in others:
        if not other.has_schema_of(version):
            note = f"{other} ({other.state.value}, {other.origin}) has another schema with this name"
            click.echo(f"offsetfs schemas: {printable(note)}", err=True)


def _named(catalog: SchemaCatalog, registry: RegistrySchemas | None, name: str) -> Sequence[SchemaVersion]:
    """Return the versions that a name means, the best first; else that of the registry. `Failure` if there is none."""
    found: Sequence[SchemaVersion]
    subject, slash, number = name.rpartition("/")
    if name.isascii() and name.isdigit():
        found = catalog.with_id(int(name[:20]))
    elif (latest := catalog.latest(name)) is not None:
        found = [latest]
    elif slash and number == _LATEST:
        latest = catalog.latest(subject)
        found = [] if latest is None else [latest]
    elif slash and number.isascii() and number.isdigit():
        found = [version for version in catalog if version.key == (subject, int(number[:20]))]
    else:
        found = catalog.with_guid(name.lower())
    if not found and registry is not None:
        found = _fetched(registry, name)
    if not found:
        raise Failure(f"there is no schema {printable(name)}; {_hint(catalog, subject or name)}", WRONG_CALL)
    return found


def _hint(catalog: SchemaCatalog, subject: str) -> str:
    """Return which versions a subject has, or which subjects there are."""
    versions = catalog.versions(subject)
    if versions:
        return f"{printable(subject)} has {_listed([str(version.version) for version in reversed(versions)])}"
    known = sorted({version.subject for version in catalog})
    if not known:
        return "the topic has no schemas"
    alike = [known_subject for known_subject in known if subject.lower() in known_subject.lower()]
    near = "" if alike else suggestion((subject,), known)
    return printable(near) if near else f"the subjects are {_listed(alike or known)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names[:_NEAR_MAX])) + (", …" if len(names) > _NEAR_MAX else "")


def _fetched(registry: RegistrySchemas, name: str) -> Sequence[SchemaVersion]:
    """Return the version that a name means in a registry: an id, a GUID, or a subject; empty if there is none."""
    from offsetfs.schemas.registry_json import RegistryError

    subject, slash, number = name.rpartition("/")
    try:
        if name.isascii() and name.isdigit():
            found = registry.with_id(int(name[:20]))
        elif _GUID.fullmatch(name):
            found = registry.with_guid(name.lower())
        elif slash and number.isascii() and number.isdigit():
            found = registry.version(subject, int(number[:20]))
        else:
            found = registry.latest(subject if slash and number == _LATEST else name)
    except RegistryError as error:
        raise Failure(printable(str(error)), FAILED) from error
    return [] if found is None else [found]


# --- the usage -------------------------------------------------------------------------------------------------------


class _Counting:
    """The records of all topics by the schema that they name, and what could not be read of them."""

    def __init__(self, directory: AnyLogDirectory, schemas_topic: str, usage: str) -> None:
        from offsetfs.cli.terminal.progress import bytes_progress
        from offsetfs.schemas.schema_usage import TopicUsage

        self.topics: dict[str, TopicUsage] = {}
        self.notes: list[str] = []
        """A sentence on each partition whose first records are only in remote storage."""
        self._damage: list[str] = []
        self._damaged = 0
        left_out = {*INTERNAL_TOPICS, METADATA_TOPIC, schemas_topic}
        partitions = [partition for partition in sorted(directory.partitions()) if partition.topic not in left_out]
        newest = SAMPLE_RECORDS if usage == _SAMPLE else None
        read = 0

        def on_batch(size: int) -> None:
            nonlocal read
            read += size
            show(read, read)

        with bytes_progress("Counting") as show:
            for partition in partitions if usage != _NONE else ():
                found = self.topics.setdefault(partition.topic, TopicUsage())
                try:
                    log = directory.log(partition)
                    if log.remote_note is not None:
                        self.notes.append(f"{partition}: {log.remote_note}")
                    found.count(log, newest, self._on_damage, on_batch)
                except (StorageError, OSError) as error:
                    self._on_damage(error)

    def _on_damage(self, error: Exception) -> None:
        self._damaged += 1
        if len(self._damage) < _DAMAGE_SHOWN_MAX:
            self._damage.append(sentence(error))

    def note(self, text: str) -> None:
        """Add a sentence, once."""
        if text not in self.notes:
            self.notes.append(text)

    def left_out(self) -> Iterator[str]:
        """Yield a sentence on each part of a log that was not counted."""
        yield from (f"not counted: {reason}" for reason in self._damage)
        if self._damaged > len(self._damage):
            yield f"not counted: {self._damaged - len(self._damage)} more damaged batches; offsetfs verify lists them"


def _usage_rows(counting: _Counting, known: KnownSchemas) -> Iterator[dict[str, Any]]:
    """Yield a row for each schema that the keys or values of a topic name, those with the most records first."""
    from offsetfs.schemas.registry_json import RegistryError

    for topic, usage in counting.topics.items():
        for field_name, found in usage.fields.items():
            row: dict[str, Any] = {"topic": topic, "field": field_name}
            for named, counted_names in sorted(found.names.items(), key=lambda entry: -entry[1].count):
                try:
                    schemas = known.find(named, topic, field_name)
                except RegistryError as error:
                    counting.note(str(error))
                    schemas = []
                yield {
                    **row,
                    "form": named.form.value,
                    "name": named.name,
                    "records": counted_names.count,
                    "schema": str(schemas[0]) if schemas else None,
                    "schemaType": schemas[0].type if schemas else None,
                    "first": {"partition": counted_names.partition.partition, "offset": counted_names.first},
                }
            if found.beyond:
                yield {**row, "form": _BEYOND, "name": None, "records": found.beyond}
            if found.unnamed:
                given = known.unnamed(topic, field_name)
                yield {
                    **row,
                    "form": _NONE,
                    "name": None,
                    "records": found.unnamed,
                    "schema": None if given is None else str(given),
                    "schemaType": None if given is None else given.type,
                }
            if found.nulls:
                yield {**row, "form": "null", "name": None, "records": found.nulls}


def _shortened(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows with at most `_UNKNOWN_SHOWN_MAX` unknown names of each topic and field, the others as one row.

    Numbers that are no ids can begin like one.
    """
    for key, group in itertools.groupby(rows, key=lambda row: (row["topic"], row["field"])):
        unknown = records = 0
        for row in group:
            if row["name"] is None or row["schema"] is not None:
                yield row
                continue
            unknown += 1
            if unknown <= _UNKNOWN_SHOWN_MAX:
                yield row
            else:
                records += row["records"]
        if records:
            more = f"{unknown - _UNKNOWN_SHOWN_MAX} more unknown names"
            yield {"topic": key[0], "field": key[1], "form": more, "name": None, "records": records}


def _usage_cells(row: dict[str, Any]) -> tuple[str, ...]:
    schema = f"{row['schema']} ({row['schemaType']})" if row.get("schema") else ""
    if row["name"] is not None and not schema:
        schema = f"unknown, first at {row['topic']}-{row['first']['partition']} offset {row['first']['offset']}"
    cells = (row["topic"], row["field"], row["form"], row["name"] or "", str(row["records"]), schema)
    return tuple(map(printable, cells))


# --- the list --------------------------------------------------------------------------------------------------------


def _show_all(found: SchemasTopic, counting: _Counting, known: KnownSchemas, as_json: bool) -> None:
    from offsetfs.schemas.schemas_topic import USUAL_KEY_TYPES

    broken = list(found.catalog.broken_references())
    usage = list(_usage_rows(counting, known))
    if as_json:
        content = {
            "versions": [_as_json(version) for version in found.catalog],
            "broken_references": [
                {"subject": version.subject, "version": version.version, "reason": reason} for version, reason in broken
            ],
            "usage": usage,
            "counted_records": {topic: usage.records for topic, usage in counting.topics.items()},
            "not_counted": list(counting.left_out()),
            "notes": [*found.notes, *counting.notes],
            "records": found.records,
            "other_records": dict(found.others),
            "left_out": [{"reason": reason, **asdict(records)} for reason, records in found.unusable.items()],
            "damage": found.damage,
            "damaged_batches": found.damaged,
        }
        click.echo(json.dumps(content, indent=1))
        return
    versions = [_cells(version) for version in found.catalog]
    if versions:
        _print_table([("SUBJECT", "VERSION", "ID", "TYPE", "STATE", "REFERENCES"), *versions])
    if usage:
        if versions:
            click.echo()
        _print_table([("TOPIC", "FIELD", "FORM", "NAME", "RECORDS", "SCHEMA"), *map(_usage_cells, _shortened(usage))])
    warnings = [f"{version}: {reason}" for version, reason in broken]
    unusual = sorted(type_name for type_name in found.others if type_name not in USUAL_KEY_TYPES)
    warnings += [f"{counted(found.others[type_name], 'record')} not used: {type_name}" for type_name in unusual]
    warnings += [f"{schema}: has no fingerprint: {reason}" for schema, reason in known.unparsed]
    for warning in warnings:
        click.echo(f"offsetfs schemas: warning: {printable(warning)}", err=True)


def _cells(version: SchemaVersion) -> tuple[str, ...]:
    references = ", ".join(map(str, version.references))
    cells = (version.subject, str(version.version), str(version.id), version.type, version.state.value, references)
    return tuple(map(printable, cells))


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _as_json(version: SchemaVersion) -> dict[str, object]:
    """Return a version without its text, with the names that a registry gives to its fields."""
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "guid": version.guid,
        "schemaType": version.type,
        "state": version.state.value,
        "references": [asdict(reference) for reference in version.references],
        "origin": version.origin,
    }
