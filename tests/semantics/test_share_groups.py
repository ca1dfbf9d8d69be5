"""The sentences of docs/use/semantics.md about share groups, on a log directory with records made by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs.group_records import share_key, share_snapshot, share_topics, share_update
from fixtures.logs.small_logs import record
from fixtures.mounts.left_mounts import unmount
from fixtures.pages.said import Said, run

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.mount


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mount where the share group `g` is at offset 2 of ten records, of which it acknowledged three more."""
    log, point = (tmp_path_factory.mktemp("share") / name for name in ("log", "mnt"))
    log.mkdir()
    point.mkdir()
    directory = LogDirectory.open(str(log))
    offsets = directory.create_partition(TopicPartition("__consumer_offsets", 0))
    for key, value in share_topics("orders").items():
        offsets.append(record(1000, value, key))
    orders = directory.create_partition(TopicPartition("orders", 0))
    for number in range(10):
        orders.append(record(1000, b"%d" % number))
    state = directory.create_partition(TopicPartition("__share_group_state", 0))
    state.append(record(1000, share_snapshot(0, (0, 9, 0, 1)), share_key("g", 0)))
    state.append(record(1000, share_update(2, (2, 4, 2, 1)), share_key("g", 0, kind=1)))
    directory.close()
    command = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*command, "mount", log, point, "-o", "ro"], check=True)
    try:
        yield point
    finally:
        unmount(point)


SHARE_GROUPS = [
    Said(
        "The `state` of a share group has the start offset and the state batches of each partition, as its coordinator "
        "wrote them.",
        "jq -c '.type, (.partitions[] | [.topic,.partition,.start_offset,.state_epoch,.leader_epoch])' groups/g/state; "
        "jq -r '.partitions[].batches[] | [.first_offset,.last_offset,.state,.delivery_count] | @tsv' groups/g/state",
        '"share"\n["orders",0,2,1,2]\n2\t4\tAcknowledged\t1\n5\t9\tAvailable\t1\n',
    ),
    Said(
        "Its `lag` counts the records from the start offset to the end that are neither acknowledged nor archived.",
        "cat groups/g/lag",
        "PARTITION  START  END  LAG\norders-0       2   10    5\n",
    ),
]


@pytest.mark.parametrize("said", SHARE_GROUPS, ids=str)
def test_the_step_behaves_as_its_sentence_states(tree: Path, tmp_path: Path, said: Said) -> None:
    run(tree, tmp_path, said, "")
