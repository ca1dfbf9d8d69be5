"""A publication that is killed at any step, and begun again: every record is there once.

A process of its own counts what it does to the disk and dies at the n-th deed; then the same job runs again, or the
next one does, and the log is looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import offsetfs

pytestmark = pytest.mark.spark

APPLICATION = "daily"

PROGRAM = """
import os, sys
import pyarrow as pa
from offsetfs.pipeline import journal, publication, rows, staging
from offsetfs.storage import files
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_writer import BatchLimit
from offsetfs.storage.records.compression.compression import UNCOMPRESSED

path, deadline, version = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
deeds = 0

def die():
    if any(os.path.exists(os.path.join(path, name)) for name in (journal.INTENT, journal.JOURNAL)):
        print("intent", file=sys.stderr, flush=True)
    os._exit(9)

def dying(deed):
    def wrapped(*arguments, **options):
        global deeds
        deeds += 1
        if deeds == deadline:
            die()
        done = deed(*arguments, **options)
        deeds += 1
        if deeds == deadline:
            die()
        return done
    return wrapped

for owner, names in ((files, ("replace_file", "remove_file", "sync_directory")), (Log, ("append", "flush"))):
    for name in names:
        setattr(owner, name, dying(getattr(owner, name)))

shape = staging.TopicShape((0, 1), BatchLimit(200, UNCOMPRESSED), False)
job = journal.Job(f"{os.getpid():x}", "daily", version)
target = staging.Target(path, job.id, {"orders": shape}, "orders")
staged = []
for split in range(2):
    texts = [f"{version}:{split}:{number}" for number in range(12)]
    times = pa.array([1000000] * 12, pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"key": pa.array(texts), "value": pa.array(texts), "timestamp": times})
    staged.append(rows.stage([batch], target, split, 0))
print(publication.publish(path, job, staged).records, deeds)
"""


def publish(path: Path, version: int, deadline: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, str(path), str(deadline), str(version)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def values(path: Path) -> list[str]:
    with offsetfs.open(path) as data:
        return sorted((record.value or b"").decode() for each in data.partitions() for record in each.read())


def wanted(*versions: int) -> list[str]:
    return sorted(f"{version}:{split}:{n}" for version in versions for split in range(2) for n in range(12))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("orders", 2)
    return tmp_path


def left_over(path: Path) -> list[str]:
    return [name for name in os.listdir(path) if name.startswith((".offsetfs-staged", ".offsetfs-publishing"))]


@pytest.mark.promise(
    "Records published from Spark are in the log exactly once, whichever process is killed between any two steps."
)
def test_a_job_killed_at_any_step_and_restarted_writes_each_record_once(tmp_path: Path) -> None:
    deadline, is_done = 1, False
    while not is_done:
        path = tmp_path / f"killed-{deadline}"
        with offsetfs.open(path_of(path), "a") as data:
            data.create("orders", 2)
        died = publish(path, 1, deadline)
        assert died.returncode in (0, 9), died.stderr
        is_done = died.returncode == 0
        if deadline % 2:
            assert publish(path, 1).returncode == 0
            assert values(path) == wanted(1), deadline
        else:  # the next version comes first, and carries out what there is of this one
            assert publish(path, 2).returncode == 0
            assert values(path) == (wanted(1, 2) if has_intent(died) else wanted(2)), deadline
        if has_intent(died):  # else what a task left goes when it is old
            assert left_over(path) == [], deadline
        deadline += 5 if deadline > 8 else 1
    assert deadline > 30


def has_intent(died: subprocess.CompletedProcess[str]) -> bool:
    """Whether it had put down what it was going to do: from there on the next one does it."""
    return "intent" in died.stderr or died.returncode == 0


def path_of(path: Path) -> Path:
    path.mkdir()
    return path


def test_what_others_wrote_meanwhile_stays_and_is_not_mistaken_for_ours(logs: Path) -> None:
    for deadline in range(9, 40, 5):
        publish(logs, deadline, deadline)
        with offsetfs.open(logs, "a") as data:
            data.partition("orders-0").append(b"beside %d" % deadline)
    publish(logs, 99)
    found = values(logs)
    assert len(found) == len(set(found))
    assert {value for value in found if value.startswith("beside")} == {f"beside {n}" for n in range(9, 40, 5)}
    assert set(wanted(99)) <= set(found)
    versions = {value.split(":")[0] for value in found if ":" in value}
    assert [value for value in found if ":" in value] == wanted(*map(int, versions))


def test_publications_of_two_drivers_at_once_wait_for_each_other(logs: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(logs), "0"]
    both = [subprocess.Popen([*command, version], stdout=subprocess.DEVNULL) for version in ("1", "2")]
    assert [each.wait(timeout=100) for each in both] == [0, 0]
    assert values(logs) in (wanted(1, 2), wanted(2))  # the first is no news any more when the second came before


def test_a_damaged_staged_file_is_reported_and_nothing_of_it_is_appended(logs: Path) -> None:
    damage = "p = staged[0].path; d = bytearray(open(p, 'rb').read()); d[-1] ^= 1; open(p, 'wb').write(d)"
    program = PROGRAM.replace("print(publication", f"{damage}\nprint(publication")
    command = [sys.executable, "-c", program, str(logs), "0", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "PublicationFailed" in done.stderr
    assert values(logs) == []
    assert ".offsetfs-publishing.json" not in os.listdir(logs)


def test_a_foreign_intent_is_reported(logs: Path) -> None:
    for wrong in ('{"id": 1}', '{"partitions": 7}', "[]", "{", '{"id": "x", "application": "a", "version": 1}'):
        (logs / ".offsetfs-publishing.json").write_text(wrong)
        done = publish(logs, 1)
        assert done.returncode == 1 and ".offsetfs-publishing.json: is no" in done.stderr, wrong
    assert values(logs) == []


def test_files_of_killed_jobs_are_removed_once_no_job_can_need_them(logs: Path) -> None:
    old = [f".offsetfs-staged-{'a' * 32}-0-0", f".offsetfs-nonce-{'b' * 32}", f".offsetfs-nonce-{'b' * 32}.tmp"]
    new = [name.replace("0-0", "1-0").replace("b", "c") for name in old]
    for name in [*old, *new]:
        (logs / name).write_bytes(b"")
    for name in old:
        os.utime(logs / name, (0, 0))
    assert publish(logs, 1).returncode == 0
    assert sorted(name for name in os.listdir(logs) if name in [*old, *new]) == sorted(new)
