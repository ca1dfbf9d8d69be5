"""The command of `offsetfs find` that finds what a search of the page does, to be pasted into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from offsetfs.web.record_views import SearchTexts

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")


def find_command(source: str, texts: SearchTexts, options: Sequence[str]) -> str:
    """Return a line of bash. `source`: LOGDIR; `options`: those that belong to it, such as `--schema`."""
    names = texts.topics if texts.partition is None else [f"{texts.topics[0]}-{texts.partition}"]
    words = ["offsetfs", "find", *_given(texts), *options, "--", source, *names]
    if not any(word.startswith("-") for word in (source, *names)):
        words = ["offsetfs", "find", source, *names, *_given(texts), *options]
    return " ".join(map(_quoted, words))


def _given(texts: SearchTexts) -> Iterator[str]:
    single = (
        ("--key", texts.key),
        ("--key-base64", texts.key_base64),
        ("--partitioner", None if texts.key is texts.key_base64 is None else texts.partitioner),
        ("--in", None if texts.place == "value" else texts.place),
        ("--where", texts.where),
        ("--from", texts.start),
        ("--to", texts.end),
        ("--isolation", "read_committed" if texts.is_committed_only else None),
    )
    lists = (("--text", texts.texts), ("--regex", texts.patterns), ("--header", texts.headers))
    for name, values in (*lists, *((name, [value] if value is not None else []) for name, value in single)):
        for value in values:
            yield from [f"{name}={value}"] if value.startswith("-") else [name, value]
    if texts.ignores_case:
        yield "--ignore-case"


def _quoted(word: str) -> str:
    """Return a word for bash. A control character, which a terminal would obey, is written by its number."""
    if not _CONTROLS.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped) + "'"
