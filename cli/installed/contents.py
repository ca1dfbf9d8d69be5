"""The files that are installed: paths and contents."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from offsetfs.cli import mount_helper, root_command
from offsetfs.cli.completion.scripts import script
from offsetfs.cli.installed import manual_pages, units

MARK = "Written by offsetfs install-helper, and removed by offsetfs install-helper --remove."
"""Stands in every file: a file without it is foreign."""

_ISOLATED = ("-I", "-X", "utf8")
"""For an interpreter that root starts anywhere: nothing of the current directory, of the environment or of a user is
imported, and names of files are read as UTF-8 where no locale is set."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A file to be installed. `path` is absolute, below whatever root is meant."""

    path: str
    content: str
    mode: int = 0o644


def contents(prefix: str, interpreter: str) -> list[Installed]:
    """Return all files for a prefix such as /usr/local; `interpreter`: the Python that has this offsetfs."""
    share = os.path.join(prefix, "share")
    return [
        *_command(prefix, interpreter),
        *_mount_scripts(prefix, interpreter),
        *_manual(share),
        Installed(f"{share}/bash-completion/completions/offsetfs", _marked(script("bash", root_command))),
        Installed(f"{share}/zsh/site-functions/_offsetfs", _marked(script("zsh", root_command))),
        Installed(f"{share}/fish/vendor_completions.d/offsetfs.fish", _marked(script("fish", root_command))),
        *_units(prefix, interpreter),
    ]


def _command(prefix: str, interpreter: str) -> Iterator[Installed]:
    """Yield `offsetfs` for the PATH, unless pip has put its own there: the interpreter is in the same directory."""
    if os.path.dirname(interpreter) != f"{prefix}/bin":
        command = shlex.join([interpreter, *_ISOLATED, "-m", "offsetfs"])
        yield Installed(f"{prefix}/bin/offsetfs", f'#!/bin/sh\n# {MARK}\nexec {command} "$@"\n', 0o755)


def _mount_scripts(prefix: str, interpreter: str) -> Iterator[Installed]:
    """mount(8) looks in /sbin only, for the type it is given: `offsetfs`, or `fuse.offsetfs` as findmnt shows it."""
    directory = (
        "/usr/sbin" if prefix == "/usr" else "/sbin"
    )  # the same place where /sbin is a link, as packages have it
    command = shlex.join([interpreter, *_ISOLATED, "-m", "offsetfs.cli.mount_helper"])
    for name in (mount_helper.NAME, "mount.fuse.offsetfs"):
        yield Installed(f"{directory}/{name}", f'#!/bin/sh\n# {MARK}\nexec {command} "$@"\n', 0o755)


def _manual(share: str) -> Iterator[Installed]:
    for page in manual_pages.pages():
        yield Installed(f"{share}/man/man{page.section}/{page.name}.{page.section}", page.text(MARK))


def _units(prefix: str, interpreter: str) -> Iterator[Installed]:
    command = " ".join(map(units.word, [interpreter, *_ISOLATED, "-m", "offsetfs"]))
    for whose, unit in (("system", units.system_unit), ("user", units.user_unit)):
        folder = f"{prefix}/lib/systemd/{whose}"
        yield Installed(f"{folder}/offsetfs@.service", f"# {MARK}\n{unit(command)}")
        for service in units.SERVICES:
            content = units.service_unit(service, command, whose=whose)
            yield Installed(f"{folder}/offsetfs-{service.verb}@.service", f"# {MARK}\n{content}")


def _marked(script: str) -> str:
    """Return a shell's script with the mark; zsh wants its own word in the first line."""
    first, newline, rest = script.partition("\n")
    return f"{first}{newline}# {MARK}\n{rest}" if first.startswith("#compdef") else f"# {MARK}\n{script}"
