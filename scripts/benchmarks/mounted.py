"""Daemons under measurement: our mount, the null file system, a Kafka broker. Each ends with its `with` block.

With a folder in `samples`, our daemons are watched by a profiler.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import profiling

from offsetfs.cli.mounts import daemon_registry

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS_MAX = 60.0

sys.path.append(str(ROOT / "tests"))
from fixtures.kafka import programs  # noqa: E402  (they lie where the tests find them)
from fixtures.kafka.broker import KafkaBroker  # noqa: E402

KAFKA_VERSION = "4.1.0"
"""The Kafka of the figures in the page."""

AS_STARTED_BY_KAFKA = (
    "java",
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""The options of Kafka's own start scripts. Those that the tests start it with save time then and cost it later."""


def run_kafka_at_full_speed() -> None:
    """Start Kafka's programs from now on as its own scripts do."""
    assert programs.JAVA[0] == "java"
    programs.JAVA = AS_STARTED_BY_KAFKA


samples: list[Path] = []
"""The folder for what a profiler sees of our daemons; none: no profiler runs."""


@dataclass(frozen=True, slots=True)
class Mounted:
    """A mount point and the process that serves it."""

    path: Path
    pid: int

    def resident_bytes(self) -> int:
        """Return VmRSS: what of the daemon is in memory, files that it has mapped included."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(row.split()[1]) << 10 for row in status.splitlines() if row.startswith("VmRSS:"))


@contextlib.contextmanager
def offsetfs(log_directory: Path, mount_point: Path, *options: str, before: tuple[str, ...] = ()) -> Iterator[Mounted]:
    """Mount `log_directory` with `-o` options, and unmount it again, waiting for its daemon.

    Retention is off: the records that the bench makes are old. `before` stands before the command.
    """
    mount_point.mkdir(exist_ok=True)
    words = ["-m", "offsetfs", "mount", str(log_directory), str(mount_point)]
    words += [word for option in ("retention.ms=-1", *options) for word in ("-o", option)]
    subprocess.run([*before, sys.executable, *words], check=True)
    try:
        daemon = daemon_registry.find(os.stat(mount_point).st_dev, daemon_registry.own_directory())
        assert daemon is not None
        with contextlib.ExitStack() as stack:
            for folder in samples:
                folder.mkdir(exist_ok=True)
                stack.enter_context(profiling.sampled(daemon.pid, folder / f"{daemon.pid}.samples"))
            yield Mounted(mount_point, daemon.pid)
    finally:
        subprocess.run([sys.executable, "-m", "offsetfs", "umount", str(mount_point)], check=True)


@contextlib.contextmanager
def null_fs(mount_point: Path, data_bytes: int = 0) -> Iterator[Mounted]:
    """Mount the null file system, whose `data` is `data_bytes` long."""
    mount_point.mkdir(exist_ok=True)
    program = Path(__file__).with_name("null_fs.py")
    with _foreground([sys.executable, str(program), str(mount_point), str(data_bytes)], mount_point, "null") as mount:
        yield mount


@contextlib.contextmanager
def _foreground(command: list[str], mount_point: Path, name: str) -> Iterator[Mounted]:
    """Run a daemon that stays in the foreground, from the moment its mount answers until it is unmounted."""
    before = os.stat(mount_point).st_dev
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS_MAX
    while os.stat(mount_point).st_dev == before:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"{name} does not mount: {' '.join(command)}")
        time.sleep(0.01)
    try:
        yield Mounted(mount_point, process.pid)
    finally:
        unmount = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
        subprocess.run([*unmount, mount_point], check=True)
        process.wait(START_SECONDS_MAX)


@contextlib.contextmanager
def broker(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[KafkaBroker]:
    """Run a real Kafka broker."""
    with KafkaBroker(folder, settings=settings, version=KAFKA_VERSION) as started:
        yield started
        started.close()
