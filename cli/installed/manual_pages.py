"""The manual: offsetfs(1), a page for each verb, mount.offsetfs(8), generated from --help; and the documents.

A help text is paragraphs; behind `\\b` lines that stay as they are. Of those, blocks with columns are tables of options
and become lists, the others examples. What begins with `Exit codes:` has its section.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from offsetfs.cli import VERBS, mount_helper, root_command
from offsetfs.cli.installed import markdown
from offsetfs.cli.installed.roff import Page
from offsetfs.version import __version__

PROGRAM = "offsetfs"
DOCUMENTS = {
    "offsetfs-tree": ("semantics.md", "what the files of a mounted Kafka log directory do"),
    "offsetfs-findings": ("verify.md", "what offsetfs verify checks, and what each finding means"),
    "offsetfs-datasource": ("spark.md", "Kafka log directories in Apache Spark"),
}
"""The pages of section 7: the document of this package that each is made of, and its summary."""

_RELEASE = f"offsetfs {__version__}"
_EXIT_CODES = "Exit codes: "
_COLUMN_GAP = re.compile(r"\s{2,}")

_FILES = {
    "/run/offsetfs": "Which daemon of root serves which mount.",
    "$XDG_RUNTIME_DIR/offsetfs": "The same of a user; /tmp/offsetfs-UID where there is no such directory.",
    "~/.local/state/offsetfs/offsetfs.log, /var/log/offsetfs.log": "The log of mounts where there is no syslog.",
    "LOGDIR/.offsetfs-topics.json": "The settings of topics, as offsetfs config wrote them.",
    "$XDG_CACHE_HOME/offsetfs, ~/.cache/offsetfs": (
        "What mounts with -o ro, and commands without a mount, have worked out of a log, so as to read it once."
        " It may be removed while nothing is mounted."
    ),
    "/etc/fuse.conf": "The line user_allow_other lets users mount with -o allow_other.",
}
_MOUNT_FILES = {
    "/etc/fstab": "Mounts to be made at boot, or by users with the option user.",
    "/etc/offsetfs/NAME.conf, ~/.config/offsetfs/NAME.conf": (
        "LOGDIR=, MNT= and OPTIONS= of the systemd unit offsetfs@NAME.service, of the system or of a user."
    ),
}
_SEE_ALSO = "mount(8), fstab(5), fusermount3(1), systemd.mount(5)"


def pages() -> list[Page]:
    """Return all pages; loads every verb."""
    verbs = [_verb_page(_context_of(verb), VERBS[verb]) for verb in VERBS]
    return [_overview(), *verbs, *_spark_pages(), _mount_page(), *(_document(name) for name in DOCUMENTS)]


def _spark_pages() -> Iterator[Page]:
    parent = _context_of("spark")
    assert isinstance(parent.command, click.Group)
    for name, job in sorted(parent.command.commands.items()):
        yield _verb_page(click.Context(job, info_name=name, parent=parent), job.get_short_help_str(limit=200))


def _document(name: str) -> Page:
    source, summary = DOCUMENTS[name]
    page = Page(name, 7, _RELEASE, summary=summary)
    markdown.add_document(page, source)
    page.heading("SEE ALSO")
    page.paragraph(", ".join([f"{PROGRAM}(1)", *(f"{other}(7)" for other in DOCUMENTS if other != name)]))
    return page


def _overview() -> Page:
    ctx = click.Context(root_command, info_name=PROGRAM, **root_command.context_settings)
    page = Page(PROGRAM, 1, _RELEASE, summary=_as_summary(_blocks(root_command)[0].text))
    _synopsis(page, ctx)
    _description(page, root_command)
    page.heading("COMMANDS")
    for verb, line in VERBS.items():
        page.term(f"{PROGRAM} {verb}", f"{line} See {PROGRAM}-{verb}(1).")
    _options(page, ctx)
    _ending(page, root_command)
    _files(page, _FILES)
    page.heading("SEE ALSO")
    page.paragraph(
        ", ".join(
            [*(f"{PROGRAM}-{verb}(1)" for verb in VERBS), "mount.offsetfs(8)", *(f"{name}(7)" for name in DOCUMENTS)]
        )
    )
    return page


def _verb_page(ctx: click.Context, line: str) -> Page:
    page = Page(ctx.command_path.replace(" ", "-"), 1, _RELEASE, summary=_as_summary(line))
    _synopsis(page, ctx)
    _description(page, ctx.command)
    _options(page, ctx)
    _ending(page, ctx.command)
    page.heading("SEE ALSO")
    page.paragraph(", ".join([f"{PROGRAM}(1)", "mount.offsetfs(8)", *(f"{name}(7)" for name in DOCUMENTS)]))
    return page


def _context_of(verb: str) -> click.Context:
    group = click.Context(root_command, info_name=PROGRAM, **root_command.context_settings)
    command = root_command.get_command(group, verb)
    assert command is not None
    return click.Context(command, info_name=verb, parent=group)


def _mount_page() -> Page:
    command = mount_helper.command
    ctx = click.Context(command, info_name=mount_helper.NAME, **command.context_settings)
    page = Page(mount_helper.NAME, 8, _RELEASE, summary="mount a Kafka log directory, for mount(8) and fstab(5)")
    _synopsis(page, ctx)
    _description(page, command)
    _options(page, ctx)
    page.heading("MOUNT OPTIONS")
    for block in _blocks(_context_of("mount").command):
        if block.is_table:
            _table(page, block)
    _ending(page, command)
    _files(page, {**_MOUNT_FILES, **_FILES})
    page.heading("SEE ALSO")
    page.paragraph(f"{PROGRAM}-mount(1), {PROGRAM}-umount(1), {_SEE_ALSO}")
    return page


# --- parts of a page -------------------------------------------------------------------------------------------------


def _synopsis(page: Page, ctx: click.Context) -> None:
    page.heading("SYNOPSIS")
    page.synopsis(ctx.command_path, " ".join(ctx.command.collect_usage_pieces(ctx)))


def _description(page: Page, command: click.Command) -> None:
    """Add all but exit codes and examples."""
    page.heading("DESCRIPTION")
    for block in _blocks(command):
        if block.is_table:
            _table(page, block)
        elif not block.is_verbatim and not block.text.startswith(_EXIT_CODES):
            page.paragraph(block.text)


def _table(page: Page, block: _Block) -> None:
    for name, meaning in _rows(block.lines):
        page.term(name, meaning)


def _options(page: Page, ctx: click.Context) -> None:
    page.heading("OPTIONS")
    for parameter in ctx.command.get_params(ctx):
        record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
        if record is not None:
            page.term(*record)


def _ending(page: Page, command: click.Command) -> None:
    blocks = _blocks(command)
    examples = [block for block in blocks if block.is_verbatim and not block.is_table]
    if examples:
        page.heading("EXAMPLES")
        for block in examples:
            page.verbatim(block.lines)
    for block in blocks:
        if not block.is_verbatim and block.text.startswith(_EXIT_CODES):
            page.heading("EXIT STATUS")
            page.paragraph(block.text.removeprefix(_EXIT_CODES))


def _files(page: Page, files: Mapping[str, str]) -> None:
    page.heading("FILES")
    for name, meaning in files.items():
        page.term(name, meaning)


# --- a help text -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """A paragraph of a help text."""

    lines: tuple[str, ...]
    is_verbatim: bool

    @property
    def text(self) -> str:
        return " ".join(self.lines)

    @property
    def is_table(self) -> bool:
        return self.is_verbatim and any(_COLUMN_GAP.search(line) for line in self.lines)


def _blocks(command: click.Command) -> list[_Block]:
    blocks = []
    for text in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        lines = text.strip("\n").split("\n")
        is_verbatim = lines[0].strip() == "\b"
        blocks.append(_Block(tuple(lines[1:] if is_verbatim else lines), is_verbatim))
    return blocks


def _rows(lines: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of each row of a table; an indented line goes on with the row before it."""
    name, meaning = "", ""
    for line in lines:
        if line.startswith(" "):
            meaning += " " + line.strip()
            continue
        if name:
            yield name, meaning
        name, _, meaning = (part.strip() for part in re.sub(_COLUMN_GAP, "\0", line, count=1).partition("\0"))
    if name:
        yield name, meaning


def _as_summary(sentence: str) -> str:
    """Return a sentence as what stands behind the name of a page."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")
