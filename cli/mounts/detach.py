"""Runs work in the background. The parent process waits until the work is ready or has failed, and then ends.

    parent: fork ── reads lines of JSON from a pipe ── "ready" → 0, "failed" → its message and exit code, end → 4
                     "warning" → prints its message and continues to read
    child:  closes inherited descriptors ── work ── new session, "ready", then standard streams become /dev/null

One fork is enough, because the child leads a session of its own, has no terminal, and opens none. It creates that
session only when it is ready; until then it stays in the process group of the caller. The reason is systemd's
`x-systemd.automount`: autofs lets only processes of its own group look up the mount point while it waits for a mount,
and blocks all others.
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
from offsetfs.cli.terminal.progress import CLEAR_LINE

_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGHUP)  # the terminal sends them to the whole group: the parent decides


class ParentPipe:
    """The pipe from the background process to its parent. Without a parent (foreground), messages are dropped."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    @property
    def is_detached(self) -> bool:
        """Whether a parent process waits."""
        return self._fd is not None

    def progress(self, text: str) -> None:
        """Show the progress on the terminal of the parent."""
        self._send("progress", text, 0)

    def warn(self, sentence: str) -> None:
        """Make the parent print a warning."""
        self._send("warning", sentence, 0)

    def ready(self) -> None:
        """Make the parent exit with 0; start a session of our own, without the standard streams of the parent."""
        if self._fd is not None:
            os.setsid()
            self._send("ready", "", 0)
            _detach_streams()
            self._end()

    def failed(self, sentence: str, code: int) -> None:
        """Make the parent print `sentence` and exit with `code`."""
        self._send("failed", sentence, code)
        self._end()

    def _send(self, kind: str, text: str, code: int) -> None:
        if self._fd is not None:
            with contextlib.suppress(BrokenPipeError):  # the parent was killed; the work continues
                os.write(self._fd, json.dumps([kind, text, code]).encode() + b"\n")

    def _end(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def detach(work: Callable[[ParentPipe], int], warn: Callable[[str], None]) -> int:
    """Run `work` in the background; return 0 when it calls `ready`. `Failure` if it calls `failed`, or ends before.

    `warn` prints the warnings of `work`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    # A Ctrl-C must not come between the fork and the handler below: the child would go on.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL_SIGNALS)
    pid = os.fork()
    if pid == 0:
        code = exit_codes.INTERNAL
        try:
            for number in _TERMINAL_SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            # File objects of the parent in uncollected reference cycles would close their descriptors when the child
            # collects them. By then the numbers belong to other files, such as /dev/fuse.
            gc.freeze()
            _close_others(keep={0, 1, 2, writer})
            code = work(ParentPipe(writer))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # the callers on the stack belong to the parent
    os.close(writer)
    with os.fdopen(reader) as messages:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return _wait(messages.readline, warn)
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
    raise Failure("the background process ended unexpectedly; see the log of the mount", exit_codes.INTERNAL)


def _close_others(keep: set[int]) -> None:
    """Close descriptors that the shell left open: the reader of a pipe waits as long as a daemon holds it open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _detach_streams() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
