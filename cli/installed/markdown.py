"""Manual pages from the Markdown documents in the package.

Reads what these documents use: headings, paragraphs, lists, numbered lists, tables, indented blocks, `code`, **bold**
and links, whose address is left out. Anything else is a paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

from offsetfs.cli.installed.roff import Page

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"\*\*([^*]+)\*\*|`([^`]+)`")
_ITEM = re.compile(r"(?:\*|-|\d+\.)\s+")
_RULE = re.compile(r"[|\s:-]+")


def add_document(page: Page, name: str) -> None:
    """Add the document `name` of this package to `page`; its title is left out, the page has its own."""
    text = resources.files("offsetfs.cli.installed").joinpath(name).read_text(encoding="utf-8")
    if not text.partition("\n\n")[2].startswith("#"):
        page.heading("DESCRIPTION")
    for lines in _blocks(text):
        _add(page, lines)


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines between empty lines; a heading and each item of a list is a block of its own."""
    block: list[str] = []
    for line in [*text.splitlines()[1:], ""]:
        begins = bool(_ITEM.match(line)) or line.startswith("#")
        if block and (not line.strip() or begins):
            yield block
            block = []
        if line.strip():
            block.append(line)


def _add(page: Page, lines: list[str]) -> None:
    first = lines[0]
    if first.startswith("#"):
        page.heading(_plain(first.lstrip("# ")).upper())
    elif first.startswith("    "):
        page.verbatim(line[4:] for line in lines)
    elif first.startswith("|"):
        for line in lines[2 if len(lines) > 1 and _RULE.fullmatch(lines[1]) else 0 :]:
            name, *cells = (_plain(cell.strip()) for cell in line.strip().strip("|").split(" | "))
            page.term(name.strip("| "), "; ".join(filter(None, (cell.strip("| ") for cell in cells))))
    elif match := _ITEM.match(first):
        page.item(_plain(" ".join([first[match.end() :], *lines[1:]])))
    else:
        page.paragraph(_plain(" ".join(lines)))


def _plain(text: str) -> str:
    return _MARKS.sub(lambda match: match[1] or match[2], _LINK.sub(r"\1", text))
