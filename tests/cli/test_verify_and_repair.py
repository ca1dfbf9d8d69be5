"""`offsetfs verify` and `offsetfs repair`: arguments, output, exit codes."""

from __future__ import annotations

import errno
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.cli.terminal.findings import found
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN
from offsetfs.storage.lock import DirectoryLock

pytestmark = pytest.mark.unit

LOG = f"codec-none-0/{0:020d}.log"


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def out_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


# --- verify ----------------------------------------------------------------------------------------------------------


def test_a_sound_directory_exits_with_0_and_a_summary(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", os.fspath(golden)]) == 0
    *notices, summary = out_of(capsys)
    assert all(": notice: unknown-partition: " in line for line in notices)
    assert summary.startswith("28 partitions, 57 segments, 910 batches, 8937 records, 1657998 bytes in ")
    assert summary.endswith(f": {found(0, len(notices))}")


def test_the_counts_of_findings_have_one_wording() -> None:
    assert found(0) == "nothing found"
    assert (found(2), found(2, 1), found(0, 3)) == ("2 damage", "2 damage, 1 notice", "3 notices")


def test_a_directory_that_may_not_be_read_is_no_damage(
    golden: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/x")

    monkeypatch.setattr(importlib.import_module("offsetfs.cli.commands.verify"), "_verify", refuse)
    assert run(["verify", os.fspath(golden)]) == 2
    assert capsys.readouterr().err == "offsetfs verify: /x: Permission denied\n"


def test_notices_count_when_asked_to(golden: Path) -> None:
    assert run(["verify", "--strict", os.fspath(golden)]) == 1


@pytest.mark.damages
def test_a_finding_is_one_line_with_its_place_and_meaning(
    golden_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(golden_copy / LOG, 17)
    assert run(["verify", os.fspath(golden_copy), "codec-none-0"]) == 1
    finding, summary = out_of(capsys)
    assert finding.startswith(f"{golden_copy / LOG}, position 0, offset 0: unreadable-batch: checksum 0x")
    assert summary.endswith(": 1 damage")


@pytest.mark.damages
def test_json_is_one_object_a_line(golden_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(golden_copy / LOG, 17)
    assert run(["verify", "--json", os.fspath(golden_copy / "codec-none-0")]) == 1
    finding, summary = [json.loads(line) for line in out_of(capsys)]
    assert finding.pop("meaning")
    assert finding == {
        "severity": "damage",
        "kind": "unreadable-batch",
        "path": os.fspath(golden_copy / LOG),
        "position": 0,
        "offset": 0,
    }
    assert (summary["kind"], summary["damage"], summary["notices"], summary["partitions"]) == ("summary", 1, 0, 1)


@pytest.mark.parametrize(
    ("arguments", "partitions"),
    [
        (["{}", "keyed-0", "keyed-1"], 2),
        (["{}/keyed-0", "{}/keyed-1", "{}/segments-0/"], 3),
        (["{}/keyed-0", "{}"], 28),
        (["{}", "{}/keyed-0"], 28),
    ],
)
def test_partitions_are_named_by_name_or_by_path(
    arguments: list[str], partitions: int, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "--json", *(argument.format(golden) for argument in arguments)]) == 0
    assert json.loads(out_of(capsys)[-1])["partitions"] == partitions


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["{}/nothing"], 2, "there is no such directory"),
        (["{}", "nothing-7"], 1, "has no such topic or partition"),
        (["{}", "nothing"], 1, "nothing: "),
        ([], 1, "missing argument"),
    ],
)
def test_an_unreadable_path_is_reported_in_one_sentence(
    arguments: list[str], code: int, sentence: str, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", *(argument.format(golden) for argument in arguments)]) == code
    captured = capsys.readouterr()
    assert sentence in captured.err and captured.out == ""


@pytest.mark.long
@pytest.mark.damages
def test_a_pipe_that_closes_ends_the_command(golden_copy: Path) -> None:
    flip(golden_copy / LOG, 17)
    command = f"{sys.executable} -m offsetfs verify {golden_copy} | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1 and "Traceback" not in done.stderr


# --- repair ----------------------------------------------------------------------------------------------------------


def cut_end(path: Path) -> None:
    (path / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    with (path / "epochs-0" / f"{120:020d}.log").open("ab") as log:
        log.write(b"half a batch" * 10)


def test_a_repair_shows_its_plan_and_acts_with_yes(unclean_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut_end(unclean_copy)
    log = unclean_copy / "epochs-0" / f"{120:020d}.log"
    before = log.read_bytes()
    assert run(["repair", os.fspath(unclean_copy)]) == 1
    lines = out_of(capsys)
    assert any(": cut: " in line and "120 bytes will be cut, kept in" in line for line in lines)
    assert lines[-1] == "nothing changed; add --yes to do it"
    assert log.read_bytes() == before

    assert run(["repair", os.fspath(unclean_copy), "--yes"]) == 0
    assert any(line.startswith(f"done: {log}, position ") for line in out_of(capsys))
    assert log.read_bytes() == before[:-120]
    (kept,) = log.parent.glob("*.cut-*")
    assert kept.read_bytes() == before[-120:]

    assert run(["repair", os.fspath(unclean_copy)]) == 0
    assert out_of(capsys) == ["nothing changed; nothing to do"]
    assert run(["verify", os.fspath(unclean_copy)]) == 0


@pytest.mark.damages
def test_damage_that_stays_is_shown_with_what_remains_readable(
    golden_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(golden_copy / LOG, 17)
    before = (golden_copy / LOG).read_bytes()
    assert run(["repair", "--yes", os.fspath(golden_copy)]) == 1
    lines = out_of(capsys)
    assert lines[0].startswith(f"stays: {golden_copy / LOG}, position 0, offset 0: unreadable-batch")
    assert lines[1] == f"{golden_copy / 'codec-none-0'}: what remains readable: offsets 1 to 399"
    assert (golden_copy / LOG).read_bytes() == before


@pytest.mark.damages
def test_a_repair_speaks_json(unclean_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut_end(unclean_copy)
    assert run(["repair", "--json", os.fspath(unclean_copy)]) == 1
    lines = [json.loads(line) for line in out_of(capsys)]
    assert lines[0]["kind"] == "unclean" and lines[-1] == {
        "kind": "summary",
        "changed": False,
        "meaning": "nothing changed; add --yes to do it",
    }


@pytest.mark.parametrize("option", [[], ["--dry-run"], ["--yes"]])
def test_a_repair_is_refused_beside_a_writer(
    option: list[str], golden_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = DirectoryLock(os.fspath(golden_copy))
    lock.acquire()
    try:
        assert run(["repair", os.fspath(golden_copy), *option]) == exit_codes.FAILED
        assert f"in use by process {os.getpid()}" in capsys.readouterr().err
    finally:
        lock.release()


def test_there_is_nothing_to_repair_where_there_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["repair", os.fspath(tmp_path / "nothing")]) == 2
    assert "there is no such directory" in capsys.readouterr().err
