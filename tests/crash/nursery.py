"""Writers in processes of their own, which may be killed at any moment, at a few milliseconds each.

A nursery is one Python process that has imported the engine and forks a writer for each task; started as a program it
is that process. Tasks come in as lines of JSON, what the writers say goes out as lines of text:

    started PID         first of all; where a gate was asked for, the writer then waits for a line of its own
    ...                 what the writer says: see `history`
    finding "TEXT"      an exception that ended it
    ended CODE STATUS   it is dead, by exit or by signal, and stays a zombie, so that its pid is not reused

A pipe keeps what a killed writer said, and the other end of it is outside of the disk that the writer writes to.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scenarios
from history import History, check, look
from life import DEFAULTS, Life

from offsetfs.storage.directory.directory import LogDirectory

SILENCE_SECONDS_MAX = 60
"""A writer that says nothing for so long hangs, and is a finding."""

# --- in the nursery and its writers ----------------------------------------------------------------------------------


def _say(line: str) -> None:
    os.write(1, line.replace("\n", "\\n").encode() + b"\n")  # whole, for a pipe takes 4 KiB at once or not at all


def live(task: dict[str, Any]) -> None:
    """Live a life; see `life.Life`."""
    Life(**task, say=_say).run()


def verify(task: dict[str, Any]) -> None:
    """Check the directory `path` against `history`, opened for reading or, recovering it, for writing."""
    directory = LogDirectory.open(task["path"], read_only=task["read_only"], defaults=DEFAULTS)
    check(directory, History.load(task["history"]))
    directory.close()


def glimpse(task: dict[str, Any]) -> None:
    """Look at the directory `path` as a reader, before it is recovered."""
    directory = LogDirectory.open(task["path"], read_only=True, defaults=DEFAULTS)
    look(directory, History.load(task["history"]))
    directory.close()


def scenario(task: dict[str, Any]) -> None:
    """Play a scenario; see `scenarios`."""
    scenarios.play(**task, say=_say)


TASKS: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "live": live,
    "scenario": scenario,
    "verify": verify,
    "look": glimpse,
}


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends us
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _work(task)
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        _say(f"ended {ended.si_code} {ended.si_status}")
        sys.stdin.readline()  # the other side has read it, and will not kill this pid any more
        os.waitpid(pid, 0)


def _work(task: dict[str, Any]) -> None:
    code = 1
    try:
        _say(f"started {os.getpid()}")
        if task.pop("gate"):
            os.read(0, 1)
        TASKS[task.pop("task")](task)
        code = 0
    except BaseException:
        _say(f"finding {json.dumps(traceback.format_exc()[-3500:])}")
    finally:
        os._exit(code)


# --- outside ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """How a writer ended: by itself with exit code `status`, or `killed` by signal `status`."""

    killed: bool
    status: int
    finding: str = ""


class Nursery:
    """The other side of it. `command` goes before Python's, such as `eatmydata`."""

    def __init__(self, command: Sequence[str] = ()) -> None:
        program = [*command, sys.executable, os.fspath(Path(__file__))]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._rest = b""
        self._writer: Writer | None = None

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.kill()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def start(self, task: str, *, gate: bool = False, **arguments: object) -> Writer:
        """Start a writer; one at a time. With `gate` it begins at `go`."""
        assert self._writer is None
        self._send(json.dumps({"task": task, "gate": gate, **arguments}))
        started = self._line()
        assert started is not None and started.startswith("started "), started
        self._writer = Writer(self, int(started.split()[1]))
        return self._writer

    def verify(self, path: str, history: History, *, read_only: bool = False) -> None:
        """Check a directory against its history in a process of its own."""
        self._run("verify", path=path, history=history.dump(), read_only=read_only)

    def look(self, path: str, history: History) -> None:
        """Check what a reader sees of a directory that was not recovered."""
        self._run("look", path=path, history=history.dump())

    def _run(self, task: str, **arguments: Any) -> None:
        writer = self.start(task, **arguments)
        writer.drain()
        ended = writer.end()
        assert not ended.killed and ended.status == 0, f"{ended}\n{ended.finding}"

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _line(self, timeout: float = SILENCE_SECONDS_MAX) -> str | None:
        """Return the next line, None when none comes in time."""
        assert self._process.stdout is not None
        fd, deadline = self._process.stdout.fileno(), time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([fd], [], [], left)[0]:
                return None
            block = os.read(fd, 1 << 16)
            assert block, f"the nursery ended with {self._process.wait()}"
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def _reaped(self) -> None:
        self._send("reap")
        self._writer = None


class Writer:
    """A process that may be killed. Read what it says with `lines` or `line`, then ask `end` how it ended.

    `finding`: the exception that ended it, as far as it was read.
    """

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self._ended: Ended | None = None
        self.finding = ""
        self.pid = pid

    def line(self, timeout: float = SILENCE_SECONDS_MAX) -> str | None:
        """Return the next thing it says; None at its end, or when it says nothing for `timeout` seconds."""
        if self._ended is not None:
            return None
        line = self._nursery._line(timeout)
        if line is None:
            return None
        if line.startswith("finding "):
            self.finding = json.loads(line.removeprefix("finding "))
            return self.line()
        if line.startswith("ended "):
            code, status = map(int, line.split()[1:])
            self._ended = Ended(code != os.CLD_EXITED, status, self.finding)
            self._nursery._reaped()
            return None
        return line

    def lines(self) -> Iterator[str]:
        """Yield what it says until it ends."""
        while (line := self.line()) is not None:
            yield line

    def drain(self) -> None:
        """Let go of what it still says."""
        for _ in self.lines():
            pass

    def go(self) -> None:
        """Let it through its gate."""
        self._nursery._send("")

    def kill(self) -> None:
        """SIGKILL, unless it has ended by itself."""
        if self._ended is None:
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> Ended:
        """Return how it ended, when everything it said was read; one that hangs is killed, and is a finding."""
        assert self.line() is None, "not everything it said was read"
        if self._ended is None:
            self.kill()
            raise AssertionError(f"a writer said nothing for {SILENCE_SECONDS_MAX} s")
        return self._ended


if __name__ == "__main__":
    _serve()
