"""Row 21: as row 19, with a mount in the process of the broker, which appends and reads the same topics."""

from __future__ import annotations

from pathlib import Path

from fault_program import Row
from row_broker_history import play_with

KILLS = 3


def play(seed: int, scratch: Path) -> int:
    mount = scratch / "mnt"
    mount.mkdir()
    try:
        return play_with(seed, scratch, KILLS, mount)
    finally:
        mount.rmdir()


ROW = Row(
    21,
    "mount_history",
    "a mount with a broker is killed under both kinds of clients",
    play,
    seeds_in_ci=range(1),
    goal=60,
    unit="kills",
    needs=("root", "fuse"),
)
