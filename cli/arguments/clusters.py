"""Arguments of commands that connect to a cluster: addresses, client.properties, patterns of names, times, rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.numbers import argument_time_ms
from offsetfs.cli.arguments.topic_settings import illegal_setting
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common.addresses import Address, AddressError, parse_address
from offsetfs.common.formatting import printable
from offsetfs.common.quantities import parse_size
from offsetfs.storage import LogConfig
from offsetfs.storage.errors import InvalidConfig, sentence

if TYPE_CHECKING:
    from offsetfs.common.name_patterns import NamePattern
    from offsetfs.kafka.client.properties import ClientProperties
    from offsetfs.kafka.mirror.options import MirrorOptions


MIRROR_SETTING = "retention.ms"
"""The topic setting of a mirror that can differ from that of its cluster."""

topic_option = click.option(
    "--topic",
    "names",
    metavar="REGEX",
    multiple=True,
    help="Topics whose whole name matches; may be repeated; default all.",
)
"""The topics of a command, as texts for `name_patterns`."""

groups_option = click.option(
    "--groups", metavar="REGEX", multiple=True, help="Also committed offsets of groups whose whole name matches."
)
"""The consumer groups of a command, as texts for `name_patterns`."""


def broker_addresses(brokers: str) -> list[Address]:
    """Return the addresses in `HOST:PORT,HOST:PORT`; `Failure`."""
    if brokers.startswith("kafka://"):
        raise Failure(f"{brokers!r}: give HOST:PORT,HOST:PORT without kafka://", WRONG_CALL)
    texts = [text.strip() for text in brokers.split(",")]
    if not all(texts):  # it would be the broker of this machine
        raise Failure(f"{brokers!r} has an empty address; write HOST:PORT,HOST:PORT", WRONG_CALL)
    try:
        return [parse_address(text) for text in texts]
    except AddressError as error:
        raise Failure(str(error), WRONG_CALL) from error


def name_patterns(option: str, texts: tuple[str, ...]) -> tuple[NamePattern, ...]:
    """Return regular expressions for whole names; `Failure`."""
    return tuple(_name_pattern(option, text) for text in texts)


def _name_pattern(option: str, text: str) -> NamePattern:
    from offsetfs.common.name_patterns import NamePattern, PatternError

    try:
        return NamePattern(text)
    except PatternError as error:
        remedy = "; write .* for any characters" if text.startswith("*") else ""
        raise Failure(f"{option}: {text!r} is not a regular expression: {error}{remedy}", WRONG_CALL) from error


def bytes_per_second(option: str, text: str | None) -> int:
    """Return the value of an option for a rate; 0 without it. `Failure`."""
    if text is None:
        return 0
    rate = parse_size(text)
    if not rate:
        raise Failure(f"{option}: {text!r} is not a number of bytes, such as 500k or 20M", WRONG_CALL)
    return rate


def mirror_options(
    patterns: tuple[str, ...],
    start: str = "earliest",
    *,
    prefix: str = "--",
    once: bool = False,
    keep: bool = False,
    on_gap: str = "fail",
    bytes_per_s: int = 0,
    settings: Mapping[str, str] | None = None,
    needs_topic: bool = False,
    groups: tuple[str, ...] = (),
) -> MirrorOptions:
    """Return the options of a mirror; `Failure`. `prefix`: of the names of options in messages."""
    from offsetfs.kafka.mirror.options import EARLIEST, LATEST, MirrorOptions, OnGap

    begin = {"earliest": EARLIEST, "latest": LATEST}.get(start)
    if begin is None:
        begin = argument_time_ms(f"{prefix}from", start)
    if begin is None:
        raise Failure(f"{prefix}from: {start!r} is not earliest, latest or a time, such as -7d", WRONG_CALL)
    return MirrorOptions(
        topics=name_patterns(f"{prefix}topic", patterns or (".*",)),
        start=begin,
        needs_topic=needs_topic,
        groups=name_patterns(f"{prefix}groups", groups),
        once=once,
        keep=keep,
        on_gap=OnGap(on_gap),
        bytes_per_s=bytes_per_s,
        settings=settings or {},
    )


def mirror_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the topic settings of a mirror that can differ from those of its cluster; `Failure` for others."""
    for name in given:
        if name != MIRROR_SETTING:
            remedy = "the other settings are those of the cluster; change them there"
            raise Failure(f"-o {name}: of a mirror only {MIRROR_SETTING} can be set; {remedy}", WRONG_CALL)
    try:
        LogConfig.from_properties(given)
    except InvalidConfig as error:
        raise illegal_setting(error, given) from error
    return {**given}


def client_properties(path: str | None) -> ClientProperties:
    """Return the settings of --config, and print what has no effect; `Failure`."""
    from offsetfs.kafka.client.properties import ClientProperties

    try:
        properties = ClientProperties() if path is None else ClientProperties.read(path)
    except OSError as error:
        remedy = "give --config a file of properties that this user can read"
        raise Failure(f"{sentence(error)}; {remedy}", WRONG_CALL) from error
    except InvalidConfig as error:
        raise Failure(sentence(error), WRONG_CALL) from error
    for warning in properties.warnings:
        click.echo(f"{path}: {printable(warning)}", err=True)
    return properties
