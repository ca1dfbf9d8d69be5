"""The source and the options of `offsetfs mount kafka://HOST:PORT,HOST:PORT/ MNT -o topic=REGEX,…`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.cli.arguments.cluster_options import SCHEME
from offsetfs.cli.arguments.clusters import (
    broker_addresses,
    bytes_per_second,
    client_properties,
    mirror_options,
    mirror_settings,
)
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common.quantities import plain_number
from offsetfs.fs.options import MountOptionError, option_items, option_text

if TYPE_CHECKING:
    from offsetfs.kafka.mirror.process import MirrorSource

_FLAGS = ("keep",)
MIRROR_OPTIONS = ("topic", "groups", "from", "cache", "config", "rate", "on-gap", "retention.ms", *_FLAGS)
"""The options of the mirror; those of the mount are others."""

_EXCLUDED = ("listen", "advertise", "allow-anonymous", "create", "delete", "delete-records", "rw")


@dataclass(frozen=True, slots=True)
class KafkaMount:
    """The source and the cache of a mirror, and the options of its mount."""

    source: MirrorSource
    cache: str | None
    """The path of the cache directory; None: a directory in the user cache."""
    texts: tuple[str, ...]
    """The options of the mount, as -o takes them."""
    shown: dict[str, str]
    """The source and the options of the mirror, for `offsetfs status`."""


def kafka_mount(
    url: str, texts: Sequence[str], config: str | None = None, *, ignored: Collection[str] = ()
) -> KafkaMount:
    """Parse the source and the options of a mount; `Failure`. `config`: the path of client.properties, of --config.

    `ignored`: options that are no choice of the user.
    """
    from offsetfs.kafka.mirror.process import MirrorSource

    brokers = brokers_of(url, "with -o topic=REGEX, such as -o topic=orders", "-o config=FILE")
    values, rest = _split(texts, ignored)
    patterns = tuple(value for name, value in values if name == "topic")
    given = dict(values)
    if config is not None:
        given["config"] = os.path.abspath(config)
    for name in ("cache", "config"):
        if name in given and not os.path.isabs(given[name]):
            raise Failure(f"{name}={given[name]} is not an absolute path", WRONG_CALL)
    if given.get("on-gap", "fail") not in ("fail", "skip"):
        raise Failure(f"on-gap={given['on-gap']} is neither fail nor skip", WRONG_CALL)
    options = mirror_options(
        patterns,
        given.get("from", "earliest"),
        prefix="",
        keep="keep" in given,
        on_gap=given.get("on-gap", "fail"),
        bytes_per_s=bytes_per_second("rate", given.get("rate")),
        settings=mirror_settings({name: plain_number(name, value) for name, value in values if name == "retention.ms"}),
        needs_topic=True,
        groups=tuple(value for name, value in values if name == "groups"),
    )
    source = MirrorSource(broker_addresses(brokers), client_properties(given.get("config")), options)
    shown = {"source": f"{SCHEME}{brokers}/", **given, **({"topic": "|".join(patterns)} if patterns else {})}
    return KafkaMount(source, given.get("cache"), ("ro", *rest), shown)


def brokers_of(url: str, topics_remedy: str, config_remedy: str) -> str:
    """Return the addresses in `kafka://HOST:PORT,HOST:PORT/`; `Failure`. The remedies are sentences of the command."""
    brokers, _, path = url.removeprefix(SCHEME).partition("/")
    if "@" in brokers:
        reason = f"other users can read arguments; put the login into client.properties, and add {config_remedy}"
        raise Failure(f"{SCHEME}…@{brokers.rpartition('@')[2]}: {reason}", WRONG_CALL)
    if path:
        raise Failure(f"{url}: name topics {topics_remedy}", WRONG_CALL)
    if not brokers:
        raise Failure(f"{url} has no broker; write {SCHEME}HOST:PORT/, such as {SCHEME}broker1:9092/", WRONG_CALL)
    return brokers


def _split(texts: Iterable[str], ignored: Collection[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options of the mirror, and those of the mount as texts."""
    values, rest = list[tuple[str, str]](), list[str]()
    try:
        for name, value in option_items(texts):
            if name in ignored:
                continue
            if name in _EXCLUDED:
                raise Failure(f"{name} is not possible with {SCHEME}: the mount is read-only", WRONG_CALL)
            if name not in MIRROR_OPTIONS:
                rest.append(option_text(name, value))
            elif name in _FLAGS and value is not None:
                raise Failure(f"option {name} takes no value", WRONG_CALL)
            elif name not in _FLAGS and not value:
                raise Failure(f"option {name} needs a value: {name}=…", WRONG_CALL)
            else:
                values.append((name, value or ""))
    except MountOptionError as error:
        raise Failure(str(error), WRONG_CALL) from error
    return values, rest
