"""A broker in a process of its own that is killed and started again at the same address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SECONDS_MAX = 60
"""What takes longer hangs, and is a finding."""


class BrokerProcess:
    """`offsetfs serve` of `log`, or with `mount` a mount of it that listens; use `close` at the end.

    What all of its processes write to standard output and standard error is in the file `output`.
    """

    def __init__(
        self,
        log: Path,
        output: Path,
        options: Sequence[str] = (),
        *,
        mount: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.port = _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._output = output
        program = [*prefix, sys.executable, "-m", "offsetfs"]
        if mount is None:
            given = [word for option in options for word in ("-o", option)]
            self._command = [*program, "serve", str(log), "--listen", self.address, *given]
        else:
            given = ["-o", ",".join([f"listen={self.address}", "create", *options])]
            self._command = [*program, "mount", "-f", str(log), str(mount), *given]
        self._mount = mount
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONFAULTHANDLER": "1",  # for `stacks`
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it. It does not have to be ready: clients try again until it is."""
        with self._output.open("ab") as stream:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=self._environment
            )

    def wait_until_ready(self) -> None:
        """Return when it accepts connections; AssertionError if it ended, or does not within SECONDS_MAX."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.code is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.01)
                continue
            return
        raise AssertionError(f"the broker does not answer (exit code {self.code}): {self.output()[-3000:]}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def stacks(self) -> str:
        """End a broker that hangs, and return where its threads were."""
        assert self._process is not None
        states = [f"{each.name}: {_text(each / 'wchan')}" for each in Path(f"/proc/{self.pid}/task").iterdir()]
        self._process.send_signal(signal.SIGABRT)
        try:
            self._process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            states.append("it does not end by SIGABRT")
        return "\n".join([*states, self.output()[-8000:]])

    def kill(self) -> None:
        """SIGKILL, and take away what a mount leaves."""
        assert self._process is not None
        assert self._process.poll() is None, f"exit code {self._process.returncode}: {self.output()[-3000:]}"
        self._process.kill()
        self._process.wait()
        self._take_mount_away()

    def terminate(self) -> None:
        """SIGTERM; it has to end in order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(SECONDS_MAX)
        self._take_mount_away()
        assert code == 0, f"exit code {code} after SIGTERM: {self.output()[-3000:]}"

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._take_mount_away()

    def _take_mount_away(self) -> None:
        while self._mount is not None and str(self._mount) in Path("/proc/self/mounts").read_text().split():
            subprocess.run(["umount", "-l", self._mount], check=False)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # of a thread that has ended
        return ""


def _free_port() -> int:
    """Return a port that is free now, below those that the kernel gives to clients."""
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in range(low - 1 - os.getpid() % 5000, 1024, -1):
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")
