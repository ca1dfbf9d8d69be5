"""What power cuts on the simulated disk have found, one case each."""

from pathlib import Path

import pytest

from offsetfs.storage.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)

# What power loss may leave of a directory in which the first thing was being done.
BEGINNINGS = {
    "a partition without a name for its log": ["orders-0/leader-epoch-checkpoint"],
    "a partition with one file in the making": ["orders-0/leader-epoch-checkpoint.tmp"],
    "settings of topics in the making": [".offsetfs-topics.json.tmp"],
    "the first checkpoint in the making": ["recovery-point-offset-checkpoint.tmp"],
    "log starts": ["log-start-offset-checkpoint"],
    "only a partition that was deleted": ["orders-0.0123456789abcdef0123456789abcdef-delete/leader-epoch-checkpoint"],
}


@pytest.mark.parametrize("names", BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_directory_that_lost_power_at_its_first_change_can_be_opened(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    directory = LogDirectory.open(str(tmp_path))
    if not directory.has(ORDERS):
        directory.create_partition(ORDERS)
    assert (directory.log(ORDERS).log_start_offset, directory.log(ORDERS).next_offset) == (0, 0)
    directory.close()
