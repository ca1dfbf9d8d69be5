r"""Java properties files as people write them, such as `server.properties`.

    name=value      name: value      name value         the last of equal names counts
    # comment       ! comment
    log.dirs=/data/a,\                                  a backslash at the end of a line joins the next one to it
        /data/b

`\t`, `\n`, `\r`, `\f`, `\uXXXX` and a backslash before any other character as in Java. Follows java.util.Properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from offsetfs.storage import files
from offsetfs.storage.errors import InvalidConfig

BYTES_MAX = 1 << 20
"""The largest file that is read. Protects memory from a path that names another kind of file."""

_BLANKS = " \t\f"
_PAIR = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)\Z", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties_file(path: str) -> dict[str, str]:
    """Return names and values of the file at `path`. `InvalidConfig` if it is too large or not text; OSError."""
    return {name: value for name, (value, _) in read_property_lines(path).items()}


def read_property_lines(path: str) -> dict[str, tuple[str, int]]:
    """Return names, values and the line numbers of their values. `InvalidConfig` and OSError as above."""
    if files.status(path).st_size > BYTES_MAX:
        raise InvalidConfig(f"is larger than {BYTES_MAX} bytes: not a properties file", path=path)
    try:
        text = files.read_file(files.real_path(path), BYTES_MAX).decode()
    except UnicodeDecodeError as error:
        raise InvalidConfig("is not UTF-8 text: not a properties file", path=path, position=error.start) from None
    pairs = ((*_pair(line), number) for number, line in _logical_lines(text))
    return {name: (value, number) for name, value, number in pairs}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with a pair, continued lines joined, each with the number of its first line."""
    pending, first = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        stripped = line.lstrip(_BLANKS)
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        first = first if pending else number
        pending += stripped
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        if pending:
            yield first, pending
        pending = ""
    if pending:
        yield first, pending


def _pair(line: str) -> tuple[str, str]:
    match = _PAIR.match(line)
    assert match is not None  # every part of the expression may be empty
    return unescaped(match[1]), unescaped(match[2])


def unescaped(text: str) -> str:
    """Return a name or a value without its backslashes."""
    return _ESCAPE.sub(lambda match: _character(match[1]), text)


def _character(escape: str) -> str:
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, escape)
