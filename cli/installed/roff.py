"""Manual pages in the man(7) macros: text in, lines of roff out, and nothing in the text is a request.

Non-ASCII characters become `\\[uXXXX]`, which needs no agreement about an encoding; a minus stays the minus that can
be copied into a shell.
"""

from __future__ import annotations

from collections.abc import Iterable

_ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}


def escaped(text: str) -> str:
    """Return one line of text as roff prints it, whatever it begins with."""
    line = "".join(_ESCAPES.get(c) or (c if " " <= c <= "~" else f"\\[u{ord(c):04X}]") for c in text)
    return f"\\&{line}" if line.startswith(".") else line


class Page:
    """A page that grows from top to bottom."""

    def __init__(self, name: str, section: int, release: str, *, summary: str) -> None:
        """`summary`: what stands behind the name in the list of all pages; no full stop."""
        self.name = name
        self.section = section
        title = escaped(name.upper())
        self._lines = [f'.TH "{title}" {section} "" "{escaped(release)}" "offsetfs"', ".nh", ".ad l"]
        self.heading("NAME")
        self._lines.append(f"{escaped(name)} \\- {escaped(summary)}")

    def heading(self, title: str) -> None:
        """Begin a section."""
        self._lines.append(f".SH {escaped(title)}")

    def paragraph(self, text: str) -> None:
        """Add a paragraph, whose lines are filled again."""
        self._lines += [".PP", escaped(" ".join(text.split()))]

    def item(self, text: str) -> None:
        """Add an item of a list."""
        self._lines += [".IP \\(bu 2", escaped(" ".join(text.split()))]

    def synopsis(self, program: str, arguments: str) -> None:
        """Say how it is called."""
        self._lines += [".PP", f"\\fB{escaped(program)}\\fR {escaped(arguments)}".rstrip()]

    def verbatim(self, lines: Iterable[str]) -> None:
        """Add lines as they are, for a terminal."""
        self._lines += [".PP", ".nf", ".RS 4", *(escaped(line) or "." for line in lines), ".RE", ".fi"]

    def term(self, name: str, meaning: str) -> None:
        """Add a name and, indented below it, what it means."""
        self._lines += [".TP", f"\\fB{escaped(name)}\\fR", escaped(" ".join(meaning.split())) or "\\&"]

    def text(self, *comments: str) -> str:
        """Return the page, with `comments` before it."""
        return "\n".join([*(f'.\\" {comment}' for comment in comments), *self._lines, ""])
