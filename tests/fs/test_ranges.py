"""Ranges without a kernel: what a name means, what stays of it, and what a waiting reader costs."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyfuse3
import pytest
import trio
from fixtures.logs.log_states import begin_log_at, replace_segments_of
from pyfuse3 import EntryAttributes, FUSEError
from trio.testing import MockClock

from offsetfs.fs.files import line_index_building as map_making
from offsetfs.fs.files.ranges import RECENT_MAX, RangeFiles
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.naming.inodes import unpack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.segments import segment_names
from offsetfs.storage.views.range_view import RangeView

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)
CTX: Any = SimpleNamespace(pid=0)


class World:
    """A log of twenty segments, each with five records `<offset>`, a second apart; and the operations on it."""

    def __init__(self, directory: LogDirectory, operations: Operations) -> None:
        self.operations = operations
        self.log: Log = directory.log(PARTITION)
        for _ in range(20):
            self.append(5)
            self.log.roll()

    def append(self, count: int) -> None:
        for _ in range(count):
            builder = BatchBuilder(1 << 16)
            assert builder.append(None, b"%d" % self.log.next_offset, (), self.log.next_offset * 1000)
            self.log.append(builder.seal())

    async def look(self, path: str) -> EntryAttributes:
        entry = await self.operations.lookup(pyfuse3.ROOT_INODE, b"orders-0", CTX)
        for name in path.split("/"):
            entry = await self.operations.lookup(entry.st_ino, name.encode(), CTX)
        return entry

    async def read(self, inode: int) -> bytes:
        opened = await self.operations.open(inode, 0, CTX)
        data = bytes(await self.operations.read(opened.fh, 0, 1 << 20))
        await self.operations.release(opened.fh)
        return data

    async def numbers(self, path: str) -> list[int]:
        return list(map(int, (await self.read((await self.look(path)).st_ino)).split()))

    @property
    def known(self) -> int:
        tree = self.operations._nodes._of_partitions[1]._tree
        assert tree is not None
        return len(tree.nodes.lookup_numbers[Kind.RANGE])


@pytest.fixture
async def world(nursery: trio.Nursery, tmp_path: Path) -> AsyncIterator[World]:
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partition(PARTITION)
    operations = Operations(directory, MountOptions(), nursery)
    yield World(directory, operations)
    await operations.accumulators.close()
    directory.close()


async def errno_of(answer: Awaitable[object]) -> str:
    with pytest.raises(FUSEError) as caught:
        await answer
    return errno.errorcode[caught.value.errno]


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "numbers"),
    [
        ("range/3..8", range(3, 8)),
        ("range/98..", range(98, 100)),
        ("range/..3", range(3)),
        ("range/98..1000", range(98, 100)),
        ("range/1000..2000", range(0)),
        ("range/8..3", range(0)),
        ("range/5..5", range(0)),
        ("range/@3..@7", range(3, 7)),
        ("range/@2.001..@7", range(3, 7)),
        ("range/@97..", range(97, 100)),
        ("range/@1000..", range(0)),
        ("range/90..@95", range(90, 95)),
        ("last/4", range(96, 100)),
        ("last/0", range(0)),
        ("last/1000", range(100)),
    ],
)
async def test_a_name_means_a_range(world: World, path: str, numbers: range) -> None:
    assert await world.numbers(path) == list(numbers)
    lines = await world.read((await world.look(f"{path}.ndjson")).st_ino)
    assert lines.count(b"\n") == len(numbers)


async def test_names_of_one_range_are_one_file_and_its_formats_are_two(world: World) -> None:
    inode = (await world.look("range/95..100")).st_ino
    for path in ("range/95..", "range/@95..", "last/5", "range/95..100"):
        assert (await world.look(path)).st_ino == inode
    assert (await world.look("last/5.ndjson")).st_ino != inode
    assert world.known == 2


async def test_a_range_stays_the_same_and_its_name_moves_on(world: World) -> None:
    old = await world.look("last/3")
    assert old.attr_timeout > 1e8 and old.entry_timeout == 0
    world.append(2)
    new = await world.look("last/3")
    assert new.st_ino != old.st_ino and await world.read(new.st_ino) == b"99\n100\n101\n"
    assert await world.read(old.st_ino) == b"97\n98\n99\n"
    assert (await world.operations.getattr(old.st_ino, CTX)).st_size == old.st_size


@pytest.mark.long
async def test_a_range_is_forgotten_when_the_kernel_forgets_it(world: World) -> None:
    entries = [await world.look(f"range/{begin}..") for begin in range(50)]
    again = await world.look("range/0..")
    assert world.known == 50
    await world.operations.forget([(entry.st_ino, 1) for entry in entries])
    assert world.known == 1
    assert await errno_of(world.operations.getattr(entries[1].st_ino, CTX)) == "ESTALE"
    assert (await world.operations.getattr(again.st_ino, CTX)).st_size == again.st_size
    await world.operations.forget([(again.st_ino, 1)])
    assert world.known == 0
    tree = world.operations._nodes._of_partitions[1]._tree
    assert tree is not None and cast(RangeFiles, tree.nodes.files[Kind.RANGE])._recent.size <= RECENT_MAX
    assert unpack((await world.look("range/0..")).st_ino).number > unpack(again.st_ino).number


async def test_removed_records_are_estale_for_open_handles_and_else_enoent(world: World) -> None:
    old = await world.look("range/2..8")
    opened = await world.operations.open(old.st_ino, 0, CTX)
    first, second = list(world.log.snapshot())[:2]
    world.log.flush()
    replace_segments_of(world.log, world.log.snapshot().without([first]))
    begin_log_at(world.log, second.base_offset)
    segment_names.remove_from_log(first)
    segment_names.unlink(first)
    assert await world.numbers("range/2..8") == [5, 6, 7]
    assert await errno_of(world.operations.read(opened.fh, 0, 100)) == "ESTALE"
    assert bytes(await world.operations.read(opened.fh, 6, 100)) == b"5\n6\n7\n"


async def test_replaced_segments_are_another_range(world: World) -> None:
    old = await world.look("range/2..8")
    first = world.log.snapshot().first
    again = type(first)(first.directory, first.base_offset, first.config, first.pool)
    replace_segments_of(world.log, world.log.snapshot().plus(again))
    assert (await world.look("range/2..8")).st_ino != old.st_ino


# --- waiting -------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_the_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that take a second of the fake clock. A test asks for it by argument: pytest-trio sees no other way."""

    async def slept(work: Callable[[], object]) -> object:
        await trio.sleep(1)
        return work()

    monkeypatch.setattr(world.operations.mount.executor, "in_thread", slept)


async def test_a_look_up_waits_ten_seconds_and_the_measuring_goes_on(
    world: World, on_the_loop: None, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh, left = RangeView.refresh, [25]

    def slowly(self: RangeView, *, nowait: bool = False, bytes_max: int | None = None) -> bool:
        if left[0] and nowait:
            raise WouldBlock("slow")
        left[0] = max(left[0] - 1, 0)
        return not left[0] and refresh(self, nowait=nowait, bytes_max=bytes_max)

    monkeypatch.setattr(RangeView, "refresh", slowly)
    begun = trio.current_time()
    assert await errno_of(world.look("range/3..8")) == "EAGAIN"
    assert map_making.WAIT_S <= trio.current_time() - begun < map_making.WAIT_S + 3
    said = world.operations.mount.error_log.text().decode()
    assert "orders-0/range/3..8: its line indexes are being built, 0 of" in said
    assert await errno_of(world.look("range/3..8")) == "EAGAIN"
    assert await world.numbers("range/3..8") == [3, 4, 5, 6, 7]


async def test_a_failure_is_reported_and_retried(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: RangeView, *, nowait: bool = False, bytes_max: int | None = None) -> bool:
        if nowait:
            raise WouldBlock("broken")
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(RangeView, "refresh", broken)
        assert await errno_of(world.look("range/3..8")) == "EMFILE"
    assert await world.numbers("range/3..8") == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("name", ["200..300", "100..200", "200..300.ndjson"])
async def test_a_range_beyond_the_end_is_empty_and_the_error_log_has_the_end(world: World, name: str) -> None:
    assert await world.numbers(f"range/{name}") == []
    text = world.operations.mount.error_log.text().decode()
    assert f"orders-0/range/{name}: orders-0 has offsets 0 to 99; the next record gets offset 100" in text


async def test_a_range_below_the_log_start_is_empty_and_the_error_log_has_the_start(world: World) -> None:
    world.log.delete_records(50)
    assert await world.numbers("range/10..20") == []
    assert "orders-0/range/10..20: orders-0 has offsets 50 to 99;" in world.operations.mount.error_log.text().decode()


@pytest.mark.parametrize("name", ["100..", "98..200", "0..50", "-1h..", "2100-01-01.."])
async def test_ranges_that_meet_records_or_wait_for_them_report_nothing(world: World, name: str) -> None:
    await world.look(f"range/{name}")
    assert world.operations.mount.error_log.text() == b""


async def test_a_number_from_the_end_names_last(world: World) -> None:
    for path, code in (("-10", errno.ENOENT), ("range/-10..", errno.EINVAL), ("range/-10...ndjson", errno.EINVAL)):
        with pytest.raises(FUSEError) as failure:
            await world.look(path)
        assert failure.value.errno == code
        (*_, line) = world.operations.mount.error_log.text().decode().splitlines()
        assert (
            f"orders-0/{path}: " in line.replace("range: ", f"{path}: ") and "last/10 has the newest 10 records" in line
        )
