"""The options of a mount of an archive: those of the archive and of its cache, and those of every mount."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from offsetfs.cli.arguments.numbers import SECONDS_MS, parse_duration
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.fs.options import MountOptionError, option_items, option_text, size_of

if TYPE_CHECKING:
    from offsetfs.archive.reading import ReadSettings

_ARCHIVE_OPTIONS = ("cache", "cache-size", "timeout")
_SIZE_MAX = 1 << 50
_WRITES = ("rw", "create", "delete", "delete-records")


@dataclass(frozen=True, slots=True)
class ArchiveMount:
    """An archive that is mounted: its URL, and the options for reading it."""

    url: str
    settings: ReadSettings
    texts: tuple[str, ...]
    """The options of the mount, as -o takes them."""


def archive_mount(url: str, texts: Sequence[str]) -> ArchiveMount:
    """Parse the options of a mount of an archive; `Failure` for one that is wrong or needs writing."""
    from offsetfs.archive import urls
    from offsetfs.archive.reading import ReadSettings

    given, rest = _split(texts)
    cache = given.get("cache")
    if cache is not None and not os.path.isabs(cache):
        raise Failure(f"cache={cache} is not an absolute path", WRONG_CALL)
    settings = ReadSettings(cache=cache)
    if "cache-size" in given:
        try:
            size = size_of("cache-size", given["cache-size"], 0, _SIZE_MAX)
        except MountOptionError as error:
            raise Failure(str(error), WRONG_CALL) from error
        settings = replace(settings, cache_size=size)
    if "timeout" in given:
        settings = replace(settings, timeout_s=_seconds(given["timeout"]))
    return ArchiveMount(urls.normalized(url), settings, ("ro", *rest))


def option_texts(settings: ReadSettings | None = None) -> dict[str, str]:
    """Return the options of an archive as texts, for `.offsetfs/config` and `offsetfs status`; default the defaults."""
    from offsetfs.archive import block_cache, reading

    used = settings or reading.DEFAULTS
    return {
        "cache": used.cache or block_cache.default_directory(dict(os.environ)),
        "cache-size": str(used.cache_size),
        "timeout": f"{used.timeout_s:g}",
    }


def _split(texts: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options of the archive, and those of the mount as texts."""
    given, rest = dict[str, str](), list[str]()
    try:
        for name, value in option_items(texts):
            if name in _WRITES:
                raise Failure(f"{name} is not possible: an archive is read-only", WRONG_CALL)
            if name not in _ARCHIVE_OPTIONS:
                rest.append(option_text(name, value))
            elif not value:
                raise Failure(f"option {name} needs a value: {name}=…", WRONG_CALL)
            else:
                given[name] = value
    except MountOptionError as error:
        raise Failure(str(error), WRONG_CALL) from error
    return given, rest


def _seconds(text: str) -> float:
    seconds = parse_duration(text, SECONDS_MS)
    if seconds is None or not 0 < seconds <= 86_400:
        raise Failure(f"timeout={text} must be a number of seconds, greater than 0", WRONG_CALL)
    return seconds
