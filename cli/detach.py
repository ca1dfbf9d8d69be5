"""Going to the background, with the parent waiting for word: it ends when the work has begun, or could not begin.

    parent: fork ── reads lines of JSON from a pipe ── "ready" → 0, "failed" → its sentence and exit code, end → 4
                     "warning" → its sentence is printed, and the parent reads on
    child:  no stray descriptors ── work ── new session, "ready", then standard streams go to /dev/null

One fork is enough: the child leads a session of its own, without a terminal, and opens none. It begins that session
only when it is ready: until then it stays in the process group of the caller. An automounter (systemd's
`x-systemd.automount`) lets only its own group walk to the place where it waits for a mount, everybody else waits too.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable

import click

from offsetfs.cli import exit_codes
from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.progress import CLEAR_LINE

_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGHUP)  # sent to the whole group: the parent says what becomes of us


class Word:
    """What the child has to say to its parent; in the foreground there is none, and nothing is said."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    @property
    def is_detached(self) -> bool:
        """Whether there is a parent that waits."""
        return self._fd is not None

    def progress(self, text: str) -> None:
        """Tell a person who waits how far it is."""
        self._send("progress", text, 0)

    def warn(self, sentence: str) -> None:
        """Let the parent print a warning."""
        self._send("warning", sentence, 0)

    def ready(self) -> None:
        """Let the parent go, and cut the last ties to its terminal."""
        if self._fd is not None:
            os.setsid()
            self._send("ready", "", 0)
            _forget_streams()
            self._end()

    def failed(self, sentence: str, code: int) -> None:
        """Let the parent end with `sentence` and `code`."""
        self._send("failed", sentence, code)
        self._end()

    def _send(self, kind: str, text: str, code: int) -> None:
        if self._fd is not None:
            with contextlib.suppress(BrokenPipeError):  # the parent was killed: the work goes on
                os.write(self._fd, json.dumps([kind, text, code]).encode() + b"\n")

    def _end(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def detach(work: Callable[[Word], int], warn: Callable[[str], None]) -> int:
    """Run `work` in the background; return 0 once it says `ready`. `Failure` when it says `failed`, or nothing.

    `warn` prints the warnings of `work`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = exit_codes.INTERNAL
        try:
            for number in _OF_THE_TERMINAL:
                signal.signal(number, signal.SIG_IGN)
            # Files that the parent no longer uses, in cycles that were not collected yet, would close their descriptors
            # when they are collected here: by then the numbers are those of other files, such as /dev/fuse.
            gc.freeze()
            _close_others(keep={0, 1, 2, writer})
            code = work(Word(writer))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # what stands above on the stack is the parent's
    os.close(writer)
    with os.fdopen(reader) as words:
        try:
            return _wait(words.readline, warn)
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGTERM)
            raise


def _wait(next_line: Callable[[], str], warn: Callable[[str], None]) -> int:
    shown = False
    try:
        while line := next_line():
            kind, text, code = json.loads(line)
            if kind == "ready":
                return exit_codes.DONE
            if kind == "failed":
                raise Failure(text, code)
            if kind == "warning":
                if shown:
                    click.echo(CLEAR_LINE, nl=False, err=True)
                warn(text)
            elif sys.stderr.isatty():
                click.echo(CLEAR_LINE + text, nl=False, err=True)
                shown = True
    finally:
        if shown:
            click.echo(CLEAR_LINE, nl=False, err=True)
    raise Failure("the background process ended without a word", exit_codes.INTERNAL)


def _close_others(keep: set[int]) -> None:
    """Close what the shell left open: a daemon that holds a pipe open keeps its reader waiting."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _forget_streams() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
