"""Refuses statements that would write into the log directory, before they run.

DuckDB writes files by COPY … TO (also within WITH, EXPLAIN ANALYZE and PREPARE), EXPORT, ATTACH, INSTALL, CALL, and
after settings such as `profiling_output`. With PARTITION_BY and OVERWRITE, COPY first deletes all files below its
target, also those behind symbolic links. So a target is refused where it is the log directory, in it, or above it.

A path that a statement computes cannot be checked, and is refused. What is checked are the tokens that DuckDB itself
finds in a statement. Files that an extension of DuckDB writes by other statements are not recognized.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import duckdb

_BEFORE_ATTACHED = frozenset(("attach", "or", "replace", "database", "if", "not", "exists"))
"""Words of ATTACH before the path."""

_BEFORE_SETTING = frozenset(("set", "pragma", "global", "session", "local"))
"""Words before the name of a setting."""

_PATH_SETTING = re.compile(
    r"(?<!search_)path|director|profil\w*_output|repository|repositories|sink|storage", re.IGNORECASE
)
"""Settings whose value is a path that DuckDB writes to."""

_IN_FILE_NAMES = frozenset(("filename_pattern", "file_extension"))
"""Options of COPY that become a part of paths."""

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9+_]*:")
"""Of a URL, or of the type of a database, as in `duckdb:file.db`."""

_REMEDY = "write the path as a text in quotes"
_IMPORT_REFUSED = "IMPORT is refused, because its files have statements that may write; ATTACH a database instead"


class WriteRefused(Exception):
    """A statement that would write into the log directory, or may do so; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The keyword or name in lower case; empty for others, also for a name in quotes."""
        return self.text.lower() if self.kind in ("keyword", "identifier") and self.text[:1] != '"' else ""

    @property
    def name(self) -> str:
        """The keyword or name in lower case, also one in quotes; empty for others."""
        return (_unquoted(self.text) or "").lower() if self.kind in ("keyword", "identifier") else ""


class WriteCheck:
    """The check of one log directory."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.realpath(directory)

    def check_statement(self, statement: str, parameters: Mapping[str, object], home: str | None = None) -> None:
        """Raise `WriteRefused` for a statement that writes to a path at, in or above the log directory.

        `home`: what DuckDB takes for `~`; None: that of the process.
        """
        tokens = _tokens(statement)
        if any(each.name == "json_execute_serialized_sql" for each in tokens):
            raise WriteRefused("json_execute_serialized_sql is refused: it may write files; write the statement itself")
        for place, each in enumerate(tokens):
            if each.word == "copy":
                self._check_copy(tokens[place + 1 :], parameters, home)
        rest = _without_explain_and_prepare(tokens)
        verb = rest[0].word if rest else ""
        if verb != "call" and any(each.name == "enable_logging" for each in rest):
            raise WriteRefused("enable_logging may write files: write CALL enable_logging(…)")
        if verb in ("set", "pragma"):
            self._check_setting(rest, parameters, home)
        elif verb == "import":
            raise WriteRefused(_IMPORT_REFUSED)
        elif verb in ("attach", "call", "export", "install", "load"):
            if verb == "call":
                self._check_working_directory()
            if verb == "attach":
                place = next((n for n, each in enumerate(rest) if each.word not in _BEFORE_ATTACHED), len(rest))
                self._check_target(rest, place, parameters, home)
            elif verb == "call" and _is_computed(rest[2:]):
                raise WriteRefused(f"CALL with computed values is refused: it may write files; {_REMEDY}")
            self._check_texts(rest, parameters, home)

    def check_file(self, path: str) -> None:
        """Raise `WriteRefused` for a file that is in the log directory."""
        if self._relation(os.path.realpath(path)) in ("is", "is in"):
            raise WriteRefused(f"{path} is in the log directory, which SQL only reads; write to a path outside of it")

    # --- statements --------------------------------------------------------------------------------------------------

    def _check_copy(self, tokens: list[_Token], parameters: Mapping[str, object], home: str | None) -> None:
        """Check the target of COPY … TO, whose tokens behind COPY are given."""
        place = _place_of_target(tokens)
        if place is None:
            return
        target, end = self._check_target(tokens, place, parameters, home)
        options = tokens[end:]
        for number, each in enumerate(options):
            if each.name in _IN_FILE_NAMES:
                value = next((found for found in options[number + 1 :] if found.text not in ("=", "(")), None)
                if value is None or value.kind != "string_const" or "/" in value.text:
                    raise WriteRefused(f"{each.name.upper()} takes a text in quotes without a slash")
        if any(each.name.startswith("overwrite") for each in options):
            self._check_links(target, home)

    def _check_target(
        self, tokens: list[_Token], place: int, parameters: Mapping[str, object], home: str | None
    ) -> tuple[str, int]:
        """Check the path that begins at a token; return it, and the number of the token behind it."""
        path, end = _path_at(tokens, place, parameters)
        following = tokens[end] if end < len(tokens) else None
        if path is None or (following and following.kind == "operator" and following.text[0] not in "();"):
            raise WriteRefused(f"a computed path is refused, because it cannot be checked: {_REMEDY}")
        self._check_path(path, home)
        return path, end

    def _check_setting(self, tokens: list[_Token], parameters: Mapping[str, object], home: str | None) -> None:
        place = next((n for n, each in enumerate(tokens) if each.word not in _BEFORE_SETTING), len(tokens))
        name = _unquoted(tokens[place].text) if place < len(tokens) else None
        if name is None or name.lower() == "variable":
            return
        if name.lower() == "import_database":
            raise WriteRefused(_IMPORT_REFUSED)
        if _PATH_SETTING.search(name) is None:
            return
        value = tokens[place + 1 :]
        if _is_computed(value):
            raise WriteRefused(f"a computed {name} is refused, because it cannot be checked: {_REMEDY}")
        if len(value) > 1 and value[1].word:
            self._check_target(value, 1, parameters, home)
        self._check_texts(value, parameters, home)

    def _check_texts(self, tokens: list[_Token], parameters: Mapping[str, object], home: str | None) -> None:
        """Check all texts, parameters and names in quotes."""
        for place, each in enumerate(tokens):
            if each.word or (each.kind == "operator" and each.text != "$"):
                continue
            path, _ = _path_at(tokens, place, parameters)
            if path:
                self._check_path(path, home)

    def _check_working_directory(self) -> None:
        here = os.getcwd()
        if self._relation(here) in ("is", "is in"):
            raise WriteRefused(f"CALL in {here} is refused, because it may write there; change to another directory")

    # --- paths -------------------------------------------------------------------------------------------------------

    def _check_path(self, path: str, home: str | None) -> None:
        for each in _meanings(path, home):
            relation = self._relation(os.path.realpath(each))
            if relation is not None:
                raise WriteRefused(
                    f"{path} {relation} the log directory, which SQL only reads; write to a path outside of it"
                )

    def _check_links(self, path: str, home: str | None) -> None:
        """Check the symbolic links below the target of OVERWRITE: DuckDB deletes what is behind them, too."""
        for meaning in _meanings(path, home):
            for each in _links_below(meaning):
                if self._relation(os.path.realpath(each)) is not None:
                    raise WriteRefused(
                        f"{each} is a symbolic link to the log directory, and OVERWRITE would delete the logs; "
                        "remove the link, or write to another path"
                    )

    def _relation(self, path: str) -> str | None:
        """Return how a real path is related to the log directory; None: not at all. Bind mounts are recognized."""
        if path == self._directory:
            return "is"
        inside, outside = _identities(self._directory), _identities(path)
        if (inside and inside[0] in outside) or os.path.commonpath([self._directory, path]) == self._directory:
            return "is in"
        if os.path.commonpath([self._directory, path]) == path or _identity(path) in inside:
            return "is above"
        return None


def _meanings(path: str, home: str | None) -> Iterator[str]:
    """Yield the paths that DuckDB may take a text for."""
    yield path
    yield os.path.expanduser(path)
    if home and path.startswith("~"):
        yield home + path[1:]
    if (found := _PREFIX.match(path)) is not None:
        rest = path[found.end() :]
        if rest.startswith("//"):
            rest = rest[2:]
            yield "/" + rest.partition("/")[2]  # file://host/path
        yield rest
        yield unquote(rest)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _identities(path: str) -> list[tuple[int, int]]:
    """Return devices and inodes of a path, as far as it exists, and of the directories above it."""
    found = []
    while True:
        if (identity := _identity(path)) is not None:
            found.append(identity)
        above = os.path.dirname(path)
        if above == path:
            return found
        path = above


def _links_below(path: str) -> Iterator[str]:
    """Yield the symbolic links to directories below a directory, also those behind such links."""
    seen: set[str] = set()
    waiting = [os.path.realpath(path)]
    while waiting:
        top = waiting.pop()
        if top in seen:
            continue
        seen.add(top)
        for folder, names, _ in os.walk(top):
            for each in names:
                inner = os.path.join(folder, each)
                if os.path.islink(inner):
                    yield inner
                    waiting.append(os.path.realpath(inner))


# --- tokens ----------------------------------------------------------------------------------------------------------


def _tokens(statement: str) -> list[_Token]:
    """Return the tokens of a statement without comments."""
    data = statement.encode()
    found = duckdb.tokenize(statement)
    ends = [*(start for start, _ in found[1:]), len(data)]
    return [
        _Token(kind.name, data[start:end].decode(errors="replace").strip())
        for (start, kind), end in zip(found, ends, strict=True)
        if kind.name != "comment"
    ]


def _without_explain_and_prepare(tokens: list[_Token]) -> list[_Token]:
    """Return the statement that EXPLAIN or PREPARE has."""
    rest = tokens
    while rest and rest[0].text in (";", "("):
        rest = rest[1:]
    while rest and rest[0].word in ("explain", "prepare"):
        is_prepare = rest[0].word == "prepare"
        rest = rest[1:]
        depth = 0
        while rest:
            text, word = rest[0].text, rest[0].word
            if is_prepare:
                rest = rest[1:]
                if word == "as":
                    break
            elif depth or text == "(" or word.startswith(("analy", "verbose")):
                depth += (text == "(") - (text == ")")
                rest = rest[1:]
            else:
                break
    return rest


def _place_of_target(tokens: list[_Token]) -> int | None:
    """Return the number of the token behind TO; None for COPY … FROM, and where COPY is a name."""
    depth = 0
    for number, each in enumerate(tokens):
        depth += (each.text == "(") - (each.text == ")")
        if depth < 0 or each.text == ";":
            return None
        if depth == 0 and each.word == "from":
            return None
        if depth == 0 and each.word == "to":
            return number + 1 if number + 1 < len(tokens) else None
    return None


def _path_at(tokens: list[_Token], place: int, parameters: Mapping[str, object]) -> tuple[str | None, int]:
    """Return the path that begins at a token, None if it is not a plain one, and the number of the token behind it."""
    end = place
    parts: list[str | None] = []
    if place < len(tokens) and tokens[place].kind == "string_const":
        while end < len(tokens) and tokens[end].kind == "string_const":  # on several lines they are one text
            parts.append(_unquoted(tokens[end].text))
            end += 1
    elif tokens[place : place + 1] and tokens[place].text == "$" and place + 1 < len(tokens):
        value = parameters.get(tokens[place + 1].text)
        return (None if value is None else str(value)), place + 2
    else:
        while end < len(tokens) and tokens[end].kind in ("identifier", "keyword", "numeric_const", "operator"):
            is_name = tokens[end].text != "."
            if is_name == (len(parts) % 2 == 1) or (is_name and tokens[end].kind == "operator"):
                break  # names and points take turns
            parts.append(_unquoted(tokens[end].text))
            end += 1
    if not parts or None in parts:
        return None, end
    return "".join(each for each in parts if each is not None), end


def _unquoted(text: str) -> str | None:
    """Return a text or a name without its quotes; None for other texts, such as those with escapes."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace(text[0] * 2, text[0])
    if text.startswith("$"):
        tag = text[: text.index("$", 1) + 1] if "$" in text[1:] else text
        return text[len(tag) : -len(tag)] if text.endswith(tag) and len(text) >= 2 * len(tag) else None
    if text[:1].isalpha() and "'" in text:
        return None
    return text


def _is_computed(tokens: list[_Token]) -> bool:
    """Return whether values have operators, functions or queries: then a path is none of their texts."""
    for number, each in enumerate(tokens):
        before = tokens[number - 1] if number else None
        if each.kind == "operator" and each.text.strip("(),;=:>{}[].$"):
            return True
        if each.kind == "string_const" and _unquoted(each.text) is None:
            return True
        if each.word in ("select", "from", "values") or (each.text == "(" and before is not None and before.word):
            return True
        if each.text == "[" and before is not None and (before.kind != "operator" or before.text in (")", "]")):
            return True
    return False
