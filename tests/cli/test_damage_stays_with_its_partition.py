"""A damaged file of one partition, or of the directory itself, keeps no command from the other partitions.

Each kind of file gets extreme values; each command then does its work on a neighbor of the damaged partition. No
command ends with a traceback.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import batch
from fixtures.machine.own_machine import OFFSETFS
from fixtures.mounts.left_mounts import unmount

from offsetfs.cli import run
from offsetfs.cli.exit_codes import DONE, FAILED, INTERNAL, SYSTEM, WRONG_CALL
from offsetfs.storage import checkpoint
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN
from offsetfs.storage.names import OFFSET_MAX
from offsetfs.storage.settings.topic_settings import TOPICS

LOG = f"{0:020d}.log"
VALUES = b"".join(b"v%d\n" % number for number in range(5))
TIME_MS = 4_000_000_000_000  # no retention: it lies in the future
HUGE = b"9" * 5000  # more digits than int() takes
ANY = (DONE, WRONG_CALL, SYSTEM, FAILED)

Damage = Callable[[Path], object]


def batches(base: int = 0, count: int = 5, **fields: int) -> bytes:
    return b"".join(batch(base + n, b"v%d" % n, timestamp=TIME_MS, **fields) for n in range(count))


def written(name: str, data: bytes) -> Damage:
    return lambda path: (path / name).write_bytes(data)


def renamed(base: int) -> Damage:
    return lambda path: (path / "z-0" / LOG).rename(path / "z-0" / f"{base:020d}.log")


def log_becomes(make: Callable[[Path], object]) -> Damage:
    def damage(path: Path) -> None:
        (path / "z-0" / LOG).unlink()
        make(path / "z-0" / LOG)

    return damage


def _segments() -> Iterator[tuple[str, Damage]]:
    for base in (2**31, OFFSET_MAX - 99, OFFSET_MAX, OFFSET_MAX + 1):
        yield f"a segment is renamed to {base}", renamed(base)
        yield f"an empty segment {base}", written(f"z-0/{base:020d}.log", b"")
        yield f"a batch in a segment {base}", written(f"z-0/{base:020d}.log", batches(min(base, OFFSET_MAX - 1), 1))
    yield "the last offset that there is", written(f"z-0/{LOG}", batches() + batches(OFFSET_MAX - 1, 1))
    yield "the largest timestamp", written(f"z-0/{LOG}", batch(0, b"v", timestamp=OFFSET_MAX))
    extremes = {"producer_id": OFFSET_MAX, "producer_epoch": 2**15 - 1, "base_sequence": 2**31 - 1}
    yield "the largest producer", written(f"z-0/{LOG}", batches(count=1, **extremes))
    yield "the largest leader epoch", written(f"z-0/{LOG}", batches(leader_epoch=2**31 - 1))
    yield "no log file", lambda path: (path / "z-0" / LOG).unlink()
    yield "a directory as log file", log_becomes(Path.mkdir)
    yield "a link as log file", log_becomes(lambda file: file.symlink_to("/dev/zero"))
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot", ".log.swap", ".log.cleaned", ".log.deleted"):
        for base in (0, OFFSET_MAX):
            yield f"bytes of 255 in {base}{suffix}", written(f"z-0/{base:020d}{suffix}", b"\xff" * 48)
        yield f"largest numbers in {suffix}", written(f"z-0/{0:020d}{suffix}", (b"\x7f" + b"\xff" * 7) * 6)


def _texts() -> Iterator[tuple[str, Damage]]:
    offsets = {
        "binary": b"\xff\x00\x80",
        "the largest offset": b"0\n1\nz 0 %d\n" % OFFSET_MAX,
        "an offset beyond": b"0\n1\nz 0 %d\n" % (OFFSET_MAX + 1),
        "5000 digits": b"0\n1\nz 0 " + HUGE + b"\n",
        "a large count": b"0\n%d\nz 0 1\n" % OFFSET_MAX,
        "5000 digits of version": HUGE + b"\n1\nz 0 1\n",
    }
    for name in (checkpoint.RECOVERY_POINTS, checkpoint.LOG_STARTS, checkpoint.HIGH_WATERMARKS):
        for kind, data in offsets.items():
            yield f"{name}: {kind}", written(name, data)
    yield "the largest cleaner offset", written(checkpoint.CLEANER_OFFSETS, offsets["the largest offset"])
    for kind, data in {
        "binary": b"\xff\x00",
        "largest": b"0\n1\n%d %d\n" % (2**31 - 1, OFFSET_MAX),
        "5000 digits": b"0\n1\n" + HUGE + b" 0\n",
        "negative": b"0\n1\n-1 -1\n",
    }.items():
        yield f"leader epochs: {kind}", written(f"z-0/{checkpoint.LEADER_EPOCHS}", data)
    for kind, data in {"binary": b"\xff\x00", "5000 digits": b"version: " + HUGE + b"\ntopic_id: x"}.items():
        yield f"partition.metadata: {kind}", written(f"z-0/{checkpoint.PARTITION_METADATA}", data)
        yield f"meta.properties: {kind}", written(checkpoint.META_PROPERTIES, data)
    for kind, data in {"deep": b"[" * 100_000, "5000 digits": b'{"brokerEpoch":' + HUGE + b"}"}.items():
        yield f"the mark of a clean shutdown: {kind}", written(CLEAN_SHUTDOWN, data)


SETTINGS: dict[str, bytes] = {
    "binary": b"\xff\x00",
    "empty": b"",
    "deep": b"[" * 100_000,
    "cut short": b'{"topics": {"z": {',
    "a number of 5000 digits": b'{"topics": {"z": {"retention.ms": ' + HUGE + b"}}}",
    "a text of 5000 digits": b'{"topics": {"z": {"retention.ms": "' + HUGE + b'"}}}',
    "an illegal value": b'{"topics": {"z": {"retention.ms": "x"}, "a": {"retention.ms": "-1"}}}',
    "an illegal topic": b'{"topics": {"../z": {}}}',
}
DAMAGES: dict[str, Damage] = {
    **dict(_segments()),
    **dict(_texts()),
    **{f"settings: {kind}": written(TOPICS, data) for kind, data in SETTINGS.items()},
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log directory with a partition `a-0` and one that is to be damaged, `z-0`; not cleanly closed."""
    path = tmp_path / "log"
    for name in ("a-0", "z-0"):
        (path / name).mkdir(parents=True)
        (path / name / LOG).write_bytes(batches())
    return path


class Commands:
    """Runs commands on one log directory."""

    def __init__(self, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
        self._captured = capfdbinary
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: object, codes: tuple[int, ...] = (DONE,), stdin: bytes = b"") -> bytes:
        """Run a command; return its standard output. Assert the exit code, and that there is no traceback."""
        reader, writer = os.pipe()
        os.write(writer, stdin)
        os.close(writer)
        with os.fdopen(reader) as stream, self._monkeypatch.context() as patches:
            patches.setattr(sys, "stdin", stream)
            code = run([str(each) for each in arguments])
        out, error = self._captured.readouterr()
        assert code in codes and code != INTERNAL and b"Traceback" not in error, (arguments, code, error.decode())
        return out


@pytest.fixture
def offsetfs(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(capfdbinary, monkeypatch)


@pytest.mark.fuzz
@pytest.mark.damages
@pytest.mark.promise("A damaged partition, or damaged topic settings, do not stop commands on other partitions.")
@pytest.mark.parametrize("is_clean", [False, True], ids=["crashed", "closed cleanly"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_keeps_no_command_from_other_partitions(
    log: Path, offsetfs: Commands, damage: Damage, is_clean: bool
) -> None:
    if is_clean:
        (log / CLEAN_SHUTDOWN).touch()
    damage(log)
    shutil.copytree(log, log.parent / "copy", symlinks=True)
    offsetfs("verify", log, codes=(DONE, WRONG_CALL))
    offsetfs("repair", log, codes=(DONE, WRONG_CALL))
    offsetfs("ls", log)
    assert offsetfs("cat", log, "a-0/values") == VALUES
    offsetfs("cat", log, "z-0/values", "z-0/info", codes=ANY)
    offsetfs("status", log)
    offsetfs("dump", log, "a-0")
    offsetfs("dump", log, "z-0", codes=ANY)
    offsetfs("append", log, "a-0", stdin=b"v5\n")
    assert offsetfs("cat", log, "a-0/values") == VALUES + b"v5\n"
    offsetfs("create", log, "b-0", "--partitions", "1")
    offsetfs("clean", log, codes=(DONE, FAILED))
    offsetfs("truncate", log, "a-0", 5, "--yes")
    offsetfs("delete-records", log, "a-0=1", "--yes")
    offsetfs("convert", log, codes=(DONE, FAILED))
    assert offsetfs("cat", log, "a-0/values") == VALUES.removeprefix(b"v0\n")

    copy = log.parent / "copy"
    offsetfs("repair", copy, "--yes", codes=(DONE, WRONG_CALL))
    assert offsetfs("cat", copy, "a-0/values") == VALUES
    offsetfs("append", copy, "a-0", stdin=b"v5\n")


@pytest.mark.unit
@pytest.mark.damages
def test_repair_sets_damaged_settings_aside_and_keeps_those_that_are_legal(log: Path, offsetfs: Commands) -> None:
    for number, kind in enumerate(("an illegal value", "cut short")):
        (log / TOPICS).write_bytes(SETTINGS[kind])
        assert f"{TOPICS}: cannot be read: would be renamed".encode() in offsetfs("repair", log, codes=(1,))
        copy = log / (f"{TOPICS}.damaged" + ("-2" if number else ""))
        assert os.fsencode(f"{copy}: the damaged settings of topics") in offsetfs("repair", log, "--yes")
        assert copy.read_bytes() == SETTINGS[kind]
        left = b"retention.ms" in offsetfs("config", log)
        assert left == (kind == "an illegal value") and (log / TOPICS).exists() == left
        assert offsetfs("repair", log).startswith(b"nothing changed; nothing to do")


@pytest.mark.unit
def test_nothing_is_removed_while_the_settings_cannot_be_read(log: Path, offsetfs: Commands) -> None:
    for name in ("a-0", "z-0"):
        (log / name / LOG).write_bytes(b"".join(batch(n, b"v%d" % n, timestamp=1) for n in range(5)))
    (log / TOPICS).write_bytes(SETTINGS["cut short"])
    offsetfs("clean", log)
    assert offsetfs("cat", log, "a-0/values", "z-0/values") == VALUES * 2
    (log / TOPICS).unlink()
    offsetfs("clean", log)
    assert offsetfs("cat", log, "a-0/values", "z-0/values") == b""


@pytest.mark.unit
@pytest.mark.damages
def test_a_partition_beside_a_damaged_one_is_handed_over(
    log: Path, golden_copy: Path, offsetfs: Commands, tmp_path: Path
) -> None:
    renamed(OFFSET_MAX - 99)(log)
    (log / "a-0").rename(log / "keyed-1")
    for file in (golden_copy / "keyed-1").glob("*.*"):
        if file.name not in (checkpoint.PARTITION_METADATA, checkpoint.LEADER_EPOCHS):
            file.unlink()
    (golden_copy / "z-0").mkdir()
    (golden_copy / "z-0" / f"{OFFSET_MAX - 99:020d}.log").write_bytes(batches())
    offsetfs("hand-over", log, "keyed-1", golden_copy)
    assert offsetfs("cat", golden_copy, "keyed-1/values") == VALUES


@pytest.mark.mount
@pytest.mark.damages
def test_a_mount_names_an_unrecoverable_partition_and_serves_the_rest(log: Path, tmp_path: Path) -> None:
    shutil.copy(log / "z-0" / LOG, log / "z-0" / f"{OFFSET_MAX + 1:020d}.log")
    log_becomes(Path.mkdir)(log)
    (log / TOPICS).write_bytes(SETTINGS["cut short"])
    point = tmp_path / "mnt"
    point.mkdir()
    made = offsetfs_process("mount", log, point)
    try:
        assert made.returncode == 0
        assert f"offsetfs mount: warning: {log}/{TOPICS}: no settings of topics" in made.stderr
        assert "offsetfs mount: warning: z-0: recovery failed, the partition is read only: " in made.stderr
        with (point / "a-0" / "append").open("ab") as append:
            append.write(b"v5\n")
        assert (point / "a-0" / "values").read_bytes() == VALUES + b"v5\n"
        errors = (point / ".offsetfs" / "errors").read_text()
        assert "recovery z-0" in errors and TOPICS in errors
        assert "1 partition not recovered and read only" in offsetfs_process("status").stdout
    finally:
        unmount(point)


def offsetfs_process(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OFFSETFS, *arguments], capture_output=True, text=True, timeout=240, check=False)
