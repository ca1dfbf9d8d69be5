"""`groups` of a mount: committed offsets and lag, as a broker would answer them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.group_records import share_group, share_key, share_snapshot, share_topics
from fixtures.logs.small_logs import record
from fixtures.machine.waiting import soon

from offsetfs.fs.naming.grammar import decoded as group_of
from offsetfs.fs.naming.grammar import encoded as file_name
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.mount

OFFSETS = TopicPartition("__consumer_offsets", 0)
BILLING = {"codec-lz4-0": 123, "keyed-0": 10, "keyed-1": 11, "keyed-2": 12, "keyed-3": 13}


def text(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def commit(group: bytes, topic: bytes, offset: int | None) -> SealedBatch:
    key = b"\0\1" + text(group) + text(topic) + bytes(4)
    value = None if offset is None else b"\0\3" + offset.to_bytes(8, "big") + bytes(4) + text(b"") + bytes(8)
    data = build([(key, value, (), 1_795_263_758_151)])
    return SealedBatch(memoryview(data), 1, 0, Timestamp(1_795_263_758_151), len(data))


@pytest.mark.promise(
    "`groups/` shows the offsets that a broker would return to its consumer groups: the latest "
    "commits, without deleted commits and those of aborted transactions."
)
def test_committed_offsets_are_those_of_the_broker(golden_copy: Path, mount: Any) -> None:
    root = mount(golden_copy, "ro").path
    assert "groups" in os.listdir(root) and sorted(os.listdir(root / "groups")) == ["billing", "h-billing"]
    billing = root / "groups" / "billing"
    assert sorted(os.listdir(billing)) == sorted([*BILLING, "lag"])
    for partition, offset in BILLING.items():
        path = billing / partition
        assert path.read_text() == f"{offset}\n"
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (len(f"{offset}\n"), 1_795_263_758_151_000_000)
    assert (root / "groups/h-billing/h-codec-lz4-0").read_text() == "123\n"
    assert not (billing / "state").exists(), "its coordinator has written of no members"


def seconds_of(partition: Path, committed: int) -> str:
    """Return the time from the first record at `committed` or after it to the last one."""
    records = [json.loads(line) for line in (partition / "records.ndjson").read_text().splitlines()]
    times = [record["timestamp"] for record in records if record["offset"] >= committed]
    return f"{(times[-1] - times[0]) / 1000:.3f}"


def test_the_lag_of_a_group_is_a_table(golden_copy: Path, mount: Any) -> None:
    groups = mount(golden_copy, "ro").path / "groups"
    lag = groups / "billing" / "lag"
    rows = [line.split() for line in lag.read_text().splitlines()]
    assert [row[:4] for row in rows] == [
        ["PARTITION", "COMMITTED", "END", "LAG"],
        ["codec-lz4-0", "123", "400", "277"],
        ["keyed-0", "10", "93", "83"],
        ["keyed-1", "11", "135", "124"],
        ["keyed-2", "12", "75", "63"],
        ["keyed-3", "13", "97", "84"],
    ]
    assert [row[4] for row in rows] == [
        "SECONDS",
        *(seconds_of(groups.parent / name, at) for name, at in BILLING.items()),
    ]
    assert len({len(line) for line in lag.read_text().splitlines()}) == 1
    assert lag.stat().st_size == len(lag.read_bytes())
    assert (groups / "h-billing" / "lag").read_text().splitlines()[1].split() == ["h-codec-lz4-0", "123", "-", "-", "-"]


@pytest.mark.parametrize("name", ["other", "billing/orders-0", "billing/keyed-00", "billing/x", "bil%6Cing", ".x"])
def test_what_is_not_committed_is_not_there(golden_copy: Path, mount: Any, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        os.stat(mount(golden_copy, "ro").path / "groups" / name)


def test_nothing_of_it_can_be_written_on_a_read_only_mount(golden_copy: Path, mount: Any) -> None:
    groups = mount(golden_copy, "ro").path / "groups"
    acts: tuple[Callable[[], object], ...] = (
        lambda: (groups / "billing" / "keyed-0").write_text("7\n"),
        lambda: (groups / "billing" / "new-0").write_text("7\n"),
        lambda: (groups / "billing" / "keyed-0").unlink(),
        lambda: (groups / "billing" / "lag").write_text("7\n"),
        lambda: (groups / "new").mkdir(),
        lambda: (groups / "billing").rmdir(),
    )
    for act in acts:
        with pytest.raises(OSError) as raised:
            act()
        assert raised.value.errno == errno.EROFS


def test_without_the_topic_there_are_no_groups(mount: Any, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    root = mount(tmp_path / "log", "create").path
    assert os.listdir(root) == ["README"]
    (root / "orders-0").mkdir()
    assert sorted(os.listdir(root)) == ["README", "orders-0", "topics"]


def test_the_usual_tools_find_their_way(golden_copy: Path, mount: Any) -> None:
    root = mount(golden_copy, "ro").path
    found = subprocess.run(["grep", "-rx", "123", "groups"], cwd=root, check=True, capture_output=True).stdout
    assert sorted(found.split()) == [b"groups/billing/codec-lz4-0:123", b"groups/h-billing/h-codec-lz4-0:123"]
    used = subprocess.run(["du", "-s", root / "groups"], check=True, capture_output=True).stdout
    assert int(used.split()[0]) == 0


def _is_there(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def test_commits_are_followed_while_another_process_writes(mount: Any, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    directory = LogDirectory.open(str(tmp_path / "log"))
    log = directory.create_partition(OFFSETS)
    groups = mount(tmp_path / "log", "ro").path / "groups"
    assert os.listdir(groups) == []
    path = groups / "billing" / "orders-0"
    for offset in (5, 6, 70):
        log.append(commit(b"billing", b"orders", offset))
        assert soon(partial(_is_there, path, f"{offset}\n"))
    with open(path) as opened:
        log.append(commit(b"billing", b"orders", None))
        assert soon(lambda: not path.exists())
        assert opened.read() == "70\n"  # what it was when it was opened
    assert soon(lambda: os.listdir(groups) == [])
    directory.close()


NAMES = [
    (b"billing", b"billing"),
    (b"a/b", b"a%2Fb"),
    (b".", b"%2E"),
    (b"..", b"%2E%2E"),
    (b"...", b"..."),
    (b"", b"%"),
    (b"%", b"%25"),
    (b"100%2F", b"100%252F"),
    (b"a\0b\n", b"a%00b%0A"),
    ("größe 日本".encode(), "größe 日本".encode()),
    (b"\xff", b"\xff"),
]


@pytest.mark.security(
    "A group or a key may contain any bytes; it has exactly one name, which is a file name and not a path."
)
@pytest.mark.parametrize(("group", "name"), NAMES, ids=repr)
def test_each_group_has_exactly_one_name(group: bytes, name: bytes) -> None:
    assert file_name(group) == name and group_of(name) == group


@pytest.mark.parametrize("name", [b"a%2fb", b"%41", b"%2", b"a%", b"a%2E", b"x" * 256])
def test_other_names_are_those_of_no_group(name: bytes) -> None:
    assert group_of(name) is None


def test_groups_of_any_name_can_be_looked_into(mount: Any, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    directory = LogDirectory.open(str(tmp_path / "log"))
    log = directory.create_partition(OFFSETS)
    for number, (group, _) in enumerate(NAMES):
        log.append(commit(group, b"orders", number))
    log.append(commit(b"x" * 300, b"orders", 1))
    directory.close()
    mounted = mount(tmp_path / "log", "ro")
    groups = os.fsencode(mounted.path / "groups")
    assert sorted(os.listdir(groups)) == sorted(name for _, name in NAMES)
    for number, (_, name) in enumerate(NAMES):
        assert Path(os.fsdecode(os.path.join(groups, name, b"orders-0"))).read_text() == f"{number}\n"
    assert "too long" in mounted.errors()


def test_a_share_group_is_listed_with_the_state_of_its_members(mount: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(TopicPartition("__consumer_offsets", 0))
    for key, value in share_group("m1", "m2").items():
        log.append(record(1000, value, key))
    directory.close()
    groups = mount(path, "ro").path / "groups"
    assert os.listdir(groups) == ["g"] and sorted(os.listdir(groups / "g")) == ["lag", "state"]
    state = json.loads((groups / "g" / "state").read_text())
    assert (state["type"], state["state"]) == ("share", "Stable")
    assert [member["member_id"] for member in state["members"]] == ["m1", "m2"]
    assert (groups / "g" / "state").stat().st_size == len((groups / "g" / "state").read_bytes())


def test_the_progress_of_a_share_group_is_in_its_state_and_its_lag(mount: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    offsets = directory.create_partition(TopicPartition("__consumer_offsets", 0))
    for key, value in {**share_group("m1"), **share_topics("orders")}.items():
        offsets.append(record(1000, value, key))
    orders = directory.create_partition(TopicPartition("orders", 0))
    for number in range(10):
        orders.append(record(1000, b"%d" % number))
    states = directory.create_partition(TopicPartition("__share_group_state", 3))
    for partition, start in ((0, 2), (1, -1)):
        states.append(record(1000, share_snapshot(start, (2, 4, 2, 1), (5, 9, 0, 3)), share_key("g", partition)))
    states.append(record(1000, share_snapshot(7), share_key("elsewhere", 0, bytes(range(1, 17)))))
    directory.close()
    groups = mount(path, "ro").path / "groups"
    assert sorted(os.listdir(groups)) == ["elsewhere", "g"]
    assert (groups / "g" / "lag").read_text().splitlines() == [
        "PARTITION  START  END  LAG",
        "orders-0       2   10    5",
        "orders-1       -    -    -",
    ]
    state = json.loads((groups / "g" / "state").read_text())
    assert (state["type"], state["state"], len(state["members"])) == ("share", "Stable", 1)
    assert [each["start_offset"] for each in state["partitions"]] == [2, -1]
    assert state["partitions"][0]["batches"] == [
        {"first_offset": 2, "last_offset": 4, "state": "Acknowledged", "delivery_count": 1},
        {"first_offset": 5, "last_offset": 9, "state": "Available", "delivery_count": 3},
    ]
    assert (groups / "g" / "state").stat().st_size == len((groups / "g" / "state").read_bytes())
    elsewhere = json.loads((groups / "elsewhere" / "state").read_text())
    assert (elsewhere["type"], elsewhere["state"], elsewhere["partitions"][0]["topic"]) == ("share", None, None)
    assert "AQIDBAUGBwgJCgsMDQ4PEA-0" in (groups / "elsewhere" / "lag").read_text()
