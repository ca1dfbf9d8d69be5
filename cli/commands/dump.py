"""`offsetfs dump`: the options and the output of Kafka's DumpLogSegments, without a JVM, and further options."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import click

from offsetfs.cli.arguments.dump_paths import expanded, listed
from offsetfs.cli.arguments.numbers import argument_time_ms, size_type
from offsetfs.cli.exit_codes import DONE, FAILED, OUTPUT_CLOSED, WRONG_CALL, Failure
from offsetfs.storage.dump import (
    BYTES_MAX,
    DECODERS,
    INDEX_SUFFIX,
    INDEX_WINDOW_BYTES,
    LOG_SUFFIX,
    OLD_DECODERS,
    TIME_INDEX_SUFFIX,
    DumpOptions,
    DumpRange,
    DumpReport,
    IndexOptions,
    LineBuffer,
    LogOptions,
    RangeBound,
    dump_file,
    logs_within,
)
from offsetfs.storage.errors import StorageError
from offsetfs.version import __version__

STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"

_SIZE = size_type(BYTES_MAX)


class _OutputClosed(Exception):
    """Standard output has no reader any more: `| head` has seen enough."""


def _decoder_class(name: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    help_text = "Only Kafka's StringDecoder, the default, is known."
    return click.option(name, metavar="[CLASS]", is_flag=False, flag_value=STRING_DECODER, help=help_text)


@click.command("dump", short_help="Print segments, indexes and snapshots, as Kafka's tool does.")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--files", multiple=True, metavar="FILE,FILE…", help="Files to print, in the form of Kafka's tool.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too; implied by a decoder.")
@click.option("--deep-iteration", is_flag=True, help="Print records, not only batches; implied by --print-data-log.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only key and value of records.")
@click.option("--from", "start", metavar="WHEN", help="Begin with this offset or time (see above).")
@click.option("--to", "end", metavar="WHEN", help="End before this offset or time.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object per batch, or per record with --print-data-log."
)
@click.option("--max-bytes", type=_SIZE, default=BYTES_MAX, metavar="SIZE", help="Read at most SIZE bytes of each log.")
@click.option("--offsets-decoder", is_flag=True, help="The log is one of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="The log is one of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="The log is __cluster_metadata, or a snapshot of it.")
@click.option("--share-group-state-decoder", is_flag=True, help="The log is one of __share_group_state.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="The log is one of __remote_log_metadata.")
@_decoder_class("--key-decoder-class")
@_decoder_class("--value-decoder-class")
@click.option("--verify-index-only", is_flag=True, help="Check indexes against their log without printing them.")
@click.option("--index-sanity-check", is_flag=True, help="Check indexes as a broker does when it starts.")
@click.option(
    "--max-message-size",
    type=_SIZE,
    default=INDEX_WINDOW_BYTES,
    metavar="SIZE",
    help="Bytes to read where an index entry points.",
)
@click.option(
    "--kafka-version",
    type=click.Choice(["4.1", "4.4"]),
    default="4.4",
    show_default=True,
    help="Print what the tool of this version prints; 4.1 also stands for those before it.",
)
@click.version_option(__version__, "--version", message="offsetfs %(version)s, as DumpLogSegments of Kafka 4.4.0")
def command(
    paths: tuple[str, ...], files: tuple[str, ...], start: str | None, end: str | None, as_json: bool, **how: Any
) -> int:
    """Print the contents of log segments, indexes and snapshots, as Kafka's kafka-dump-log.sh does.

    PATH is a file, the directory of a partition, or a log directory; names of partitions may follow a log directory. A
    directory stands for its .log files; with --verify-index-only or --index-sanity-check for its indexes. Nothing is
    written, and a broker may be running.

    WHEN is an offset; or a time in UTC (2026-11-21T13:05, @1795253676, -15m, now), which means the first record at or
    after it. Its position is found through the indexes; the rest of the log is not read.

    \b
    offsetfs dump /var/lib/kafka/data/orders-0
    offsetfs dump /var/lib/kafka/data orders-0 users-1 --print-data-log
    offsetfs dump orders-0 --print-data-log --from -15m
    offsetfs dump orders-0 --print-data-log --json --from 4200 --to 4300 | jq .value
    offsetfs dump orders-0 --verify-index-only
    offsetfs dump data/__consumer_offsets-12 --offsets-decoder
    offsetfs dump --files 00000000000000000000.log,00000000000000000000.index --deep-iteration

    Damage is reported on stderr, and the dump continues after it.

    Exit codes: 1 wrong call, 2 system error, 32 something could not be read.
    """
    options = DumpOptions(_log_options(how), _index_options(how), as_json)
    suffixes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX) if _checks_indexes(options) else (LOG_SUFFIX,)
    chosen = [*listed(files), *expanded(paths, suffixes)]
    if not paths and not files:
        raise Failure("nothing to dump: name a file or a directory (see offsetfs dump --help)", WRONG_CALL)
    wanted = DumpRange(_bound("--from", start), _bound("--to", end))
    _check_order(wanted, start, end)
    try:
        return _dump(_parts(chosen, wanted, options), is_old=options.log.is_old)
    except _OutputClosed:
        return OUTPUT_CLOSED


def _dump(parts: Iterable[tuple[str, DumpOptions]], *, is_old: bool) -> int:
    lines = LineBuffer(_write)
    said, failed = (partial(_print_error, lines, prefix) for prefix in ("", "offsetfs dump: "))
    report = DumpReport(said, failed, is_old=is_old)
    for path, options in parts:
        dump_file(path, options, lines, report)
    lines.flush()
    for finding in report.findings():
        click.echo(finding, err=True)
    return FAILED if report.unreadable else DONE


def _parts(chosen: list[str], wanted: DumpRange, options: DumpOptions) -> Iterator[tuple[str, DumpOptions]]:
    """Yield each file with the options for it; with a range only logs, and only those that reach into it."""
    if wanted == DumpRange():
        yield from ((path, options) for path in chosen)
        return
    try:
        for path, log_options in logs_within(chosen, wanted, options.log):
            yield path, replace(options, log=log_options)
    except StorageError as error:
        raise Failure(str(error)) from error


# --- options -------------------------------------------------------------------------------------------------------


def _log_options(how: dict[str, Any]) -> LogOptions:
    for option in ("key_decoder_class", "value_decoder_class"):
        if how[option] not in (None, STRING_DECODER):
            name = option.replace("_", "-")
            raise Failure(f"--{name} {how[option]}: there is no JVM here; only {STRING_DECODER} is known", WRONG_CALL)
    is_old = how["kafka_version"] == "4.1"
    decoders = OLD_DECODERS if is_old else DECODERS
    decoder = next((decoders[option] for option in decoders if how[option]), None)
    has_class = how["key_decoder_class"] is not None or how["value_decoder_class"] is not None
    data = bool(how["print_data_log"] or decoder or has_class)
    return LogOptions(
        records=how["deep_iteration"] or data,
        data=data,
        metadata=not how["skip_record_metadata"],
        decoder=decoder,
        bytes_max=how["max_bytes"],
        is_old=is_old,
    )


def _index_options(how: dict[str, Any]) -> IndexOptions:
    return IndexOptions(how["index_sanity_check"], how["verify_index_only"], how["max_message_size"])


def _checks_indexes(options: DumpOptions) -> bool:
    return options.index.sanity_only or options.index.verify_only


def _bound(option: str, text: str | None) -> RangeBound | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return RangeBound(offset=int(text))
    timestamp = argument_time_ms(option, text)
    if timestamp is None:
        raise Failure(f"{option} {text}: give an offset (42) or a time (2026-11-20T18:40:01, -1h30m)", WRONG_CALL)
    return RangeBound(timestamp=timestamp)


def _check_order(wanted: DumpRange, start: str | None, end: str | None) -> None:
    first, last = wanted.start, wanted.end
    if first is None or last is None or (first.offset is None) != (last.offset is None):
        return
    if (first.offset, first.timestamp) > (last.offset, last.timestamp):
        raise Failure(f"--from {start} is after --to {end}: the range is empty", WRONG_CALL)


# --- output --------------------------------------------------------------------------------------------------------


def _write(data: memoryview) -> None:
    """Write to standard output past Python's buffer: pieces are large, and a reader that leaves is noticed here."""
    sys.stdout.flush()
    try:
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
    except BrokenPipeError:
        raise _OutputClosed from None


def _print_error(lines: LineBuffer, prefix: str, sentence: str) -> None:
    lines.flush()  # what was printed before it comes before it
    click.echo(prefix + sentence, err=True)
