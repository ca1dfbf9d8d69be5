"""A small record is in the kernel's page cache when its file is opened: reads of it send no request to the daemon."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]

SMALL = (1, 100, 4095, 4096, 4097, 8192, 65_535, 65_536)
LARGE = (65_537, 300_000)
READERS = 8


def value(size: int) -> bytes:
    return (b"%d " % size * size)[:size]


def reads(mnt: Path) -> float:
    """How often the kernel has asked for bytes of the partition."""
    families = text_string_to_metric_families((mnt / ".offsetfs" / "metrics").read_text())
    samples = [sample for family in families for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == "offsetfs_reads_total")


def test_small_records_need_no_request_and_large_ones_are_whole(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    mnt = mount(tmp_path / "log", "create").path
    (mnt / "orders-0").mkdir()
    sizes = (*SMALL, 0, *LARGE)
    with (mnt / "orders-0" / "append").open("wb") as append:
        append.writelines(value(size) + b"\n" for size in sizes)

    def seen(offset: int) -> bytes:
        content: bytes = (mnt / "orders-0" / str(offset)).read_bytes()
        return content

    before = reads(mnt)
    assert all(seen(offset) == value(size) for offset, size in enumerate((*SMALL, 0)))
    assert reads(mnt) == before
    assert all(seen(len(SMALL) + 1 + place) == value(size) for place, size in enumerate(LARGE))
    assert reads(mnt) > before


def test_many_concurrent_readers_of_one_record_all_read_it(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    mnt = mount(tmp_path / "log", "create").path
    (mnt / "orders-0").mkdir()
    values = [b"%d" % number * 500 for number in range(50)]
    with (mnt / "orders-0" / "append").open("wb") as append:
        append.writelines(each + b"\n" for each in values)
    wrong: list[int] = []

    def read_all() -> None:
        for offset, expected in enumerate(values):
            for name in (f"{offset}", f"{offset}.json", f"{offset}"):
                got = (mnt / "orders-0" / name).read_bytes()
                if got != expected and not (name.endswith(".json") and expected in got):
                    wrong.append(offset)

    readers = [threading.Thread(target=read_all) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert not wrong
