"""`offsetfs groups` with a broker: a plan of the cluster's offsets, and commits through the group's coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import offsetfs
from offsetfs.cli import run
from offsetfs.kafka.client import group_offsets
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import KafkaError
from offsetfs.kafka.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.unit

TIME_MS = 1_790_000_000_000
Groups = Callable[..., tuple[int, str, str]]


def fill(path: Path, count: int, start: int = 0) -> Path:
    """Make a directory with the records `start` to `count` in each partition of `orders`."""
    path.mkdir()
    with offsetfs.open(path, "a") as directory:
        for partition in directory.create("orders", 2):
            partition.extend(
                offsetfs.NewRecord(b"v", timestamp=TIME_MS + 1000 * number) for number in range(start, count)
            )
    return path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """Return the address of a broker with ten records in each partition of `orders`."""
    with offsetfs.serve(fill(tmp_path / "served", 10)) as running:
        yield running.bootstrap_servers


@pytest.fixture
def groups(capsys: pytest.CaptureFixture[str]) -> Groups:
    def groups(*words: str | Path) -> tuple[int, str, str]:
        code = run(["groups", *map(str, words)])
        output = capsys.readouterr()
        return code, output.out, output.err

    return groups


def committed(path: Path) -> dict[str, int]:
    with offsetfs.open(path) as directory:
        return {name: offset for group in directory.groups() for name, offset in group.offsets.items()}


def test_a_reset_of_a_cluster_is_a_plan_first(broker: str, groups: Groups, tmp_path: Path) -> None:
    url = f"kafka://{broker}/"
    for where, offset in (("earliest", 0), ("latest", 10), ("7", 7), ("99", 10), (f"@{TIME_MS // 1000 + 4}", 4)):
        words = (url, "billing", "orders", "--reset-to", where)
        before = committed(tmp_path / "served")
        assert groups(*words, "--csv") == (0, f"orders,0,{offset}\norders,1,{offset}\n", ""), where
        assert committed(tmp_path / "served") == before
        code, out, _ = groups(*words, "--yes")
        assert code == 0 and "committed 2 offsets" in out
        assert committed(tmp_path / "served") == {"orders-0": offset, "orders-1": offset}
    code, out, _ = groups(url, "billing", "--reset-to", "now")  # its own partitions
    assert code == 0 and "orders-1           4   10         6         0" in out and "--yes commits" in out
    assert groups(url, "nobody", "--reset-to", "latest")[2].endswith(": name the topics\n")
    assert "did you mean orders?" in groups(url, "billing", "order", "--reset-to", "latest")[2]


def test_the_plan_of_a_directory_goes_through_its_broker(broker: str, groups: Groups, tmp_path: Path) -> None:
    words = (tmp_path / "served", "billing", "orders", "--reset-to", "3", "--bootstrap-server", broker)
    assert "nothing was changed" in groups(*words)[1] and committed(tmp_path / "served") == {}
    assert groups(*words, "--yes")[0] == 0
    assert committed(tmp_path / "served") == {"orders-0": 3, "orders-1": 3}


def test_a_group_moves_to_another_cluster_by_content(
    broker: str, groups: Groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    old, new = f"kafka://{broker}/", tmp_path / "new"
    for partition, offset in enumerate(("7", "10")):  # in the middle, and at the end
        assert groups(old, "billing", f"orders-{partition}", "--reset-to", offset, "--yes")[0] == 0
    with offsetfs.serve(fill(new, 14, start=1)) as running:
        url = f"kafka://{running.bootstrap_servers}/"
        for source in (old, tmp_path / "served"):
            assert groups(url, "billing", "--reset-like", source, "--csv")[:2] == (0, "orders,0,6\norders,1,9\n")
        code, out, _ = groups(url, "billing", "orders-0", "--reset-like", old, "--yes")
        assert code == 0 and "committed 1 offset" in out
    assert committed(new) == {"orders-0": 6}
    assert groups(new, "billing", "orders", "--reset-like", old, "--csv")[:2] == (0, "orders,0,6\norders,1,9\n")


def test_equal_records_in_a_row_keep_their_offset(groups: Groups, tmp_path: Path) -> None:
    same = fill(tmp_path / "same", 10)
    with offsetfs.open(same, "a") as directory:
        directory.partition("orders-0").extend([offsetfs.NewRecord(b"v", timestamp=TIME_MS + 60_000)] * 30)
    assert groups(same, "billing", "orders-0", "--reset-to", "20", "--yes")[0] == 0
    assert groups(same, "billing", "--reset-like", same, "--csv")[:2] == (0, "orders,0,20\n")


def test_places_that_the_cluster_does_not_have_are_left_out(broker: str, groups: Groups, tmp_path: Path) -> None:
    other = fill(tmp_path / "other", 20)
    with offsetfs.open(other, "a") as directory:
        directory.create("users", 1)
    words = (other, "billing", "orders", "users", "--reset-to", "latest", "--bootstrap-server", broker, "--yes")
    code, out, _ = groups(*words)
    assert code == 1 and out.count("no-place") == 3 and "committed 0 offsets" in out
    assert "the partition ends at 10 in the cluster" in out and "the cluster does not have this partition" in out
    assert committed(tmp_path / "served") == {}


def test_a_directory_of_another_cluster_is_refused(broker: str, groups: Groups, tmp_path: Path) -> None:
    other = fill(tmp_path / "other", 5)
    (other / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=1\n")
    words = (other, "billing", "orders", "--reset-to", "latest", "--bootstrap-server", broker, "--yes")
    code, _, err = groups(*words)
    assert code == 1 and "cluster another" in err and "give a broker of its cluster" in err


def test_a_moved_coordinator_is_found_again(
    broker: str, groups: Groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    (tmp_path / "client.properties").write_text("retry.backoff.ms=1\n")
    commit = group_offsets._commit

    async def failing(client: ClusterClient, group: str, offsets: dict[offsetfs.storage.TopicPartition, int]) -> None:
        if failures:
            raise KafkaError(failures.pop(), "orders-0")
        await commit(client, group, offsets)

    monkeypatch.setattr(group_offsets, "_commit", failing)
    words = (f"kafka://{broker}/", "billing", "orders-0", "--reset-to", "3", "--yes")
    assert groups(*words, "--config", tmp_path / "client.properties")[0] == 0
    assert failures == [] and committed(tmp_path / "served") == {"orders-0": 3}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((".", "g", "--reset-like", ".", "--like-config", "c"), "--like-config goes with a cluster"),
        (("kafka://h:1/orders", "g", "--reset-to", "latest"), "name topics after the group"),
        (
            ("kafka://me:secret@h:1/", "g", "--reset-to", "latest"),
            "put the login into client.properties, and add --config FILE",
        ),
        (("kafka:///", "g", "--reset-to", "latest"), "has no broker; write kafka://HOST:PORT/"),
        (("kafka://h:1/", "g", "--reset-to", "soon"), "write earliest, latest, an offset, or a time"),
        (("kafka://h:1/", "g", "--reset-to", "latest", "--bootstrap-server", "h:1"), "leave out --bootstrap-server"),
        ((".", "g", "--bootstrap-server", "h:1"), "go with --reset-to"),
    ],
)
def test_wrong_calls_of_a_cluster_are_one_line(groups: Groups, words: tuple[str, ...], reason: str) -> None:
    code, out, err = groups(*words)
    assert (code, out) == (1, "") and reason in err and err.count("\n") == 1 and "secret" not in err


def test_no_broker_answers(groups: Groups, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("default.api.timeout.ms=300\n")
    words = ("kafka://127.0.0.1:1/", "g", "--reset-to", "latest", "--config", tmp_path / "client.properties")
    code, out, err = groups(*words)
    assert (code, out) == (32, "") and "127.0.0.1:1: Connection refused" in err
