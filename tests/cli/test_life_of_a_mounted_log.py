"""clean, config, delete-records, truncate and delete where the directory is mounted: through the mount, or a cure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.machine.waiting import soon

pytestmark = pytest.mark.mount

OFFSETFS = [sys.executable, "-m", "offsetfs"]


def offsetfs(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*OFFSETFS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def done(*arguments: object) -> str:
    result = offsetfs(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def mount(log: Path, mnt: Path, options: str = "linger-ms=1") -> None:
    done("mount", log, mnt, "-o", options)
    (mnt / "orders-0" / "append").write_bytes(b"".join(b"value %d\n" % number for number in range(10)))


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (["clean"], "the mount cleans it periodically"),
        (["delete-records", "orders-0=5", "--yes"], "mount it with -o delete-records and write the offset to {mnt}/"),
        (["truncate", "orders-0", "5", "--yes"], "unmount it first: offsetfs umount {mnt}"),
        (["delete", "orders-0", "--yes"], "mount it with -o delete and use rmdir {mnt}/"),
    ],
    ids=["clean", "delete-records", "truncate", "delete"],
)
def test_where_a_mount_has_the_directory_it_states_which_and_what_helps(
    log: Path, mnt: Path, arguments: list[str], cure: str
) -> None:
    mount(log, mnt)
    result = offsetfs(arguments[0], log, *arguments[1:])
    assert result.returncode == 32
    assert f"is mounted at {mnt} by process " in result.stderr and cure.format(mnt=mnt) in result.stderr
    assert (mnt / "orders-0" / "start").read_text() == "0\n" and (mnt / "orders-0" / "next").read_text() == "10\n"


def test_records_are_deleted_through_a_mount_that_allows_it(log: Path, mnt: Path) -> None:
    mount(log, mnt, "delete-records")
    assert done("delete-records", log, "orders-0=7", "--yes").splitlines() == [
        "orders-0: deletes offsets 0 to 6; 3 records remain",
        "orders-0: begins at 7",
    ]
    assert not (mnt / "orders-0" / "6").exists()
    result = offsetfs("delete-records", log, "orders-0=11", "--yes")
    assert result.returncode == 32 and "the partition contains offsets 7 to 9" in result.stderr


def test_a_mount_that_refuses_states_where_the_reason_is(log: Path, mnt: Path) -> None:
    mount(log, mnt, "delete-records")
    done("config", log, "orders", "cleanup.policy=compact")
    result = offsetfs("delete-records", log, "orders-0=5", "--yes")
    assert result.returncode == 32 and f"{mnt}/.offsetfs/errors for the reason" in result.stderr
    assert "records are not deleted where cleanup.policy is compact" in (mnt / ".offsetfs" / "errors").read_text()


def test_a_mount_may_have_an_empty_cleanup_policy(log: Path, mnt: Path) -> None:
    mount(log, mnt, "cleanup.policy=,delete-records")
    assert "cleanup.policy=\n" in done("status", mnt)
    assert "\ncleanup.policy=\n" in (mnt / ".offsetfs/config").read_text()
    (policy,) = [line for line in done("config", log, "orders").splitlines() if "cleanup.policy" in line]
    assert "delete" not in policy and "compact" not in policy and "mount" in policy
    done("delete-records", log, "orders-0=3", "--yes")
    assert (mnt / "orders-0" / "start").read_text() == "3\n"


def test_partitions_are_deleted_through_a_mount_that_allows_it(log: Path, mnt: Path) -> None:
    mount(log, mnt, "delete")
    assert [line.split(":")[0] for line in done("delete", log, "orders", "--yes").splitlines()] == [
        "orders-0",
        "orders-1",
    ]
    assert not (mnt / "orders-0").exists() and not (mnt / "orders-1").exists()
    done("umount", mnt)
    assert not [name for name in os.listdir(log) if name.startswith("orders")]


def test_settings_change_under_a_mount_and_its_options_are_shown_as_such(log: Path, mnt: Path) -> None:
    mount(log, mnt, "linger-ms=1,retention.bytes=1000000")
    lines = {line.split()[0]: line.split()[1:] for line in done("config", log, "orders").splitlines()}
    assert lines["retention.bytes"] == ["1000000", "mount"] and lines["retention.ms"] == ["604800000", "default"]
    done("config", log, "orders", "retention.bytes=5000")
    assert '"retention.bytes": "5000"' in (mnt / "orders-0" / "info").read_text()
    assert "retention.bytes" in done("config", log)


def test_what_contradicts_the_options_of_the_mount_is_refused(log: Path, mnt: Path) -> None:
    mount(log, mnt, "linger-ms=1,min.compaction.lag.ms=1000")
    result = offsetfs("config", log, "orders", "max.compaction.lag.ms=10")
    assert result.returncode == 1 and "min.compaction.lag.ms 1000 is above max.compaction.lag.ms 10" in result.stderr
    assert '"max.compaction.lag.ms"' not in (mnt / "orders-0" / "info").read_text()


def test_a_dry_run_looks_at_a_mounted_directory(log: Path, mnt: Path) -> None:
    mount(log, mnt)
    done("config", log, "orders", "segment.bytes=200")
    for _ in range(3):
        (mnt / "orders-0" / "append").write_bytes(b"x" * 100 + b"\n")
    assert soon(lambda: len(list((mnt / "orders-0" / "segments").glob("*.log"))) > 2)
    done("config", log, "orders", "retention.bytes=0")
    assert "orders-0: would remove" in done("clean", log, "--dry-run")
    assert (mnt / "orders-0" / "start").read_text() == "0\n"
