"""What an accumulator promises: order, each step to the disk in its time, bounded memory, and the truth on failure."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import trio
from fixtures.mounts.fake_appends import Appends, FakeWriter, MakeAppends
from trio.testing import MockClock, wait_all_tasks_blocked

from offsetfs.common import loop_watch
from offsetfs.fs.appends.accumulator import Accumulator
from offsetfs.fs.appends.framing import JsonLines
from offsetfs.fs.appends.handles import AppendHandle
from offsetfs.fs.appends.memory import COUNT_S, KEPT_BYTES_MAX, SHARE_BYTES_MIN, AppendMemory
from offsetfs.fs.appends.target import AppendTarget, Sticky
from offsetfs.fs.options import MountOptions
from offsetfs.storage import Unsynced
from offsetfs.storage.errors import LogFailed, RecordTooLarge, UnknownPartition
from offsetfs.storage.records.compression.compression import CODECS, UNCOMPRESSED
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch

pytestmark = pytest.mark.unit


KIB = 1 << 10
NOW = 1_795_253_676_000


def take(accumulator: Accumulator, data: bytes, writer: FakeWriter | None = None, timestamp: int = NOW) -> int:
    return accumulator.split(data, 0, len(data), timestamp, writer or FakeWriter())


# --- from the open batch into the file -------------------------------------------------------------------------------


async def test_a_record_waits_linger_ms_for_company_and_is_in_the_log_then(
    appends: MakeAppends, autojump_clock: MockClock
) -> None:
    world = appends(linger_ms=5)
    take(world.accumulator(), b"one\n")
    await trio.sleep(0.004)
    take(world.accumulator(), b"two\n")
    assert world.log().batches == []
    await trio.sleep(0.002)
    assert world.log().batches == [[b"one", b"two"]]


async def test_a_record_does_not_wait_without_linger_ms(appends: MakeAppends) -> None:
    world = appends(linger_ms=0)
    take(world.accumulator(), b"one\n")
    await wait_all_tasks_blocked()
    assert world.log().batches == [[b"one"]]


async def test_a_full_batch_goes_without_waiting(appends: MakeAppends, autojump_clock: MockClock) -> None:
    world = appends(linger_ms=60_000, batch_bytes=KIB)
    take(world.accumulator(), b"".join(b"%0100d\n" % number for number in range(12)))
    await wait_all_tasks_blocked()
    assert [len(batch) for batch in world.log().batches] == [8]
    assert autojump_clock.current_time() < 1


async def test_later_small_batches_are_in_the_log_at_once_without_a_thread(appends: MakeAppends) -> None:
    world = appends(linger_ms=0)
    take(world.accumulator(), b"first\n")
    await world.accumulator().drain()
    threads = world.threads.calls
    take(world.accumulator(), b"second\n")
    assert world.log().values == [b"first", b"second"]
    assert world.threads.calls == threads


async def test_a_large_batch_costs_no_thread_and_lets_its_writer_be_answered(
    appends: MakeAppends,
) -> None:
    world = appends(linger_ms=0)
    take(world.accumulator(), b"first\n")
    await world.accumulator().drain()
    threads = world.threads.calls
    large = b"x" * (100 * KIB)
    take(world.accumulator(), large + b"\n")
    assert world.log().values == [b"first"]
    await world.accumulator().drain()
    assert world.log().values == [b"first", large]
    assert world.threads.calls == threads


async def test_drain_returns_when_everything_taken_is_in_the_log(appends: MakeAppends) -> None:
    world = appends(linger_ms=60_000)
    take(world.accumulator(), b"one\ntwo\n")
    await world.accumulator().drain()
    assert world.log().values == [b"one", b"two"]


async def test_drain_of_nothing_returns_at_once(appends: MakeAppends) -> None:
    world = appends()
    await world.accumulator().drain()
    assert world.threads.calls == 0


async def test_records_keep_the_order_in_which_they_were_given(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    lines = [b"%d" % number for number in range(5000)]
    for start in range(0, 5000, 50):
        data = b"".join(line + b"\n" for line in lines[start : start + 50])
        position = 0
        while position < len(data):
            position = world.accumulator().split(data, position, len(data), NOW, FakeWriter())
            await world.accumulator().wait_for_space(FakeWriter()) if position < len(data) else None
    await world.accumulator().drain()
    assert world.log().values == lines


async def test_timestamps_are_those_of_the_writes(appends: MakeAppends) -> None:
    world = appends()
    take(world.accumulator(), b"one\n", timestamp=NOW)
    take(world.accumulator(), b"two\n", timestamp=NOW - 10)
    await world.accumulator().drain()
    assert world.log().timestamps == [NOW, NOW - 10]


async def test_a_small_batch_needs_no_thread_once_the_log_is_open(appends: MakeAppends) -> None:
    world = appends()
    for _ in range(3):
        take(world.accumulator(), b"one\n")
        await world.accumulator().drain()
    assert (world.threads.calls, len(world.log().batches)) == (1, 3)


@pytest.mark.parametrize(
    ("options", "topic"),
    [
        pytest.param({}, {"compression.type": "zstd"}, id="compression"),
        pytest.param({"flush_ms": 0}, {}, id="a sync with each batch"),
        pytest.param({}, {"segment.bytes": "100"}, id="a roll"),
    ],
)
async def test_what_takes_its_time_is_done_in_a_thread(
    appends: MakeAppends, options: dict[str, int], topic: dict[str, str]
) -> None:
    world = appends(topic=topic, **options)
    for _ in range(3):
        take(world.accumulator(), b"one\n")
        await world.accumulator().drain()
    assert world.threads.calls == 3


@pytest.mark.parametrize(
    ("waits", "threads"),
    [pytest.param(1, 1, id="by waiting for the disk"), pytest.param(0, 0, id="because others have the processor")],
)
async def test_after_an_append_that_was_late_a_thread_appends_where_there_was_waiting(
    appends: MakeAppends, monkeypatch: pytest.MonkeyPatch, waits: int, threads: int
) -> None:
    world = appends(linger_ms=0)
    take(world.accumulator(), b"first\n")
    await world.accumulator().drain()
    before, append = world.threads.calls, world.log().append
    reported = iter((0, waits, waits, waits))
    monkeypatch.setattr(loop_watch, "THREAD_FOR_S", 3600.0)
    monkeypatch.setattr(loop_watch, "_waits", lambda: next(reported))

    def append_slowly(sealed: SealedBatch) -> object:
        spin(loop_watch.SLOW_S * 2)
        return append(sealed)

    monkeypatch.setattr(world.log(), "append", append_slowly)
    for line in (b"late\n", b"next\n"):
        take(world.accumulator(), line)
        await world.accumulator().drain()
    assert world.threads.calls - before == threads


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


async def test_while_segments_are_swapped_a_thread_waits_and_not_the_mount(appends: MakeAppends) -> None:
    world = appends()
    for is_held in (False, True, False):
        world.log().is_held = is_held
        take(world.accumulator(), b"one\n")
        await world.accumulator().drain()
    assert world.threads.calls == 2, "the first append opens the log, the second would have to wait"


async def test_a_partition_that_is_made_anew_gets_an_accumulator_of_its_own(appends: MakeAppends) -> None:
    world = appends()
    first = world.accumulator()
    take(first, b"one\n")
    await world.accumulators.forget(first.partition)
    assert world.log().values == [b"one"], "what was taken is written before the partition goes"
    world.log().is_gone = True
    with pytest.raises(OSError) as caught:
        take(first, b"two\n")
    assert caught.value.errno == errno.ESTALE
    world.directory.logs.clear()
    assert world.accumulator() is not first


async def test_written_batches_are_reported_because_their_buffers_are_free(appends: MakeAppends) -> None:
    world = appends()
    take(world.accumulator(3), b"one\n")
    assert world.written == 0
    await world.accumulator(3).drain()
    assert world.written == 1


async def test_a_writer_that_wants_to_know_hears_where_its_records_are(appends: MakeAppends) -> None:
    world = appends()
    mine, other = FakeWriter(wants_offsets=True), FakeWriter()
    take(world.accumulator(), b"a\nb\n", other)
    take(world.accumulator(), b"c\nd\n", mine, NOW + 1)
    take(world.accumulator(), b"e\n", other)
    take(world.accumulator(), b"f\n", mine, NOW + 2)
    await world.accumulator().drain()
    assert (mine.acknowledgments, other.acknowledgments) == ([(2, 2, NOW + 1), (5, 1, NOW + 2)], [])


async def test_where_the_log_stamps_its_own_time_writers_hear_that(appends: MakeAppends) -> None:
    world = appends(topic={"message.timestamp.type": "LogAppendTime"})
    mine = FakeWriter(wants_offsets=True)
    take(world.accumulator(), b"a\n", mine)
    await world.accumulator().drain()
    assert mine.acknowledgments == [(0, 1, 777)]


async def test_a_record_with_key_and_headers_goes_the_same_way(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    for number in range(20):
        assert world.accumulator().append(b"key", b"%0100d" % number, (), NOW, FakeWriter()) or await retry(
            world, number
        )
    await world.accumulator().drain()
    assert world.log().values == [b"%0100d" % number for number in range(20)]


async def retry(world: Appends, number: int) -> bool:
    await world.accumulator().wait_for_space(FakeWriter())
    return world.accumulator().append(b"key", b"%0100d" % number, (), NOW, FakeWriter())


# --- memory ----------------------------------------------------------------------------------------------------------


async def test_a_partition_has_three_batches_at_most_and_then_takes_nothing(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    world.threads.hold()
    data = b"".join(b"%0100d\n" % number for number in range(100))
    taken = take(world.accumulator(), data)
    await wait_all_tasks_blocked()
    assert taken == 2 * 8 * 101 and not world.accumulator().has_space
    assert take(world.accumulator(), data[taken:]) == 0


async def test_space_comes_back_when_a_batch_is_written(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    world.threads.hold()
    data = b"".join(b"%0100d\n" % number for number in range(100))
    taken = take(world.accumulator(), data)
    world.threads.let_go()
    await world.accumulator().wait_for_space(FakeWriter())
    assert take(world.accumulator(), data[taken:]) > 0


async def test_all_partitions_together_take_no_more_than_buffer_bytes(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB, buffer_bytes=4 * KIB)
    world.threads.hold()
    taken = [take(world.accumulator(number), b"line\n") for number in range(6)]
    assert taken == [5, 5, 5, 5, 0, 0] and world.accumulators.context.memory.lent_bytes == 4 * KIB


async def test_a_batch_that_lingers_makes_way_for_a_writer_that_waits(
    appends: MakeAppends, autojump_clock: MockClock
) -> None:
    world = appends(batch_bytes=KIB, buffer_bytes=4 * KIB, linger_ms=60_000)
    for number in range(4):
        take(world.accumulator(number), b"line\n")
    await world.accumulator(9).wait_for_space(FakeWriter())
    assert take(world.accumulator(9), b"line\n") == 5 and autojump_clock.current_time() < 1
    assert [world.log(number).values for number in range(4)] == [[b"line"], [], [], []]


@pytest.mark.long
@pytest.mark.parametrize("partitions", [2, 16, 33, 100, 500])
async def test_partitions_that_are_written_to_together_share_the_memory_evenly(
    appends: MakeAppends, autojump_clock: MockClock, partitions: int
) -> None:
    world = appends(batch_bytes=256 * KIB, buffer_bytes=2048 * KIB, linger_ms=60_000)
    lines = [b'{"key":"%d","value":"%0100d"}\n' % (number, number) for number in range(40_000)]
    target = AppendTarget([world.accumulator(number) for number in range(partitions)], Sticky())
    handle = AppendHandle(target, os.O_WRONLY, JsonLines())
    for start in range(0, len(lines), 1000):
        data = b"".join(lines[start : start + 1000])
        while data:
            data = data[await handle.write(data) :]
    await handle.release()
    batches = [batch for number in range(partitions) for batch in world.log(number).batches]
    assert sum(map(len, batches)) == len(lines)
    size = sum(sum(world.log(number).sizes) for number in range(partitions))
    fair = min(256 * KIB, max(SHARE_BYTES_MIN, 2048 * KIB // (4 * partitions)))
    assert len(batches) < partitions + 1.3 * size / fair


async def test_partitions_that_are_written_to_no_more_leave_their_share_to_others(autojump_clock: MockClock) -> None:
    memory = AppendMemory(64 * SHARE_BYTES_MIN, lambda size: None)
    assert [memory.share_of(number) // SHARE_BYTES_MIN for number in range(4)] == [32, 16, 8, 8]
    assert memory.share_of(0) == 8 * SHARE_BYTES_MIN
    assert [memory.share_of(number) for number in range(100)][-1] == SHARE_BYTES_MIN
    await trio.sleep(1.5 * COUNT_S)
    assert memory.share_of(0) == SHARE_BYTES_MIN, "the partitions of the second before count as well"
    await trio.sleep(1.5 * COUNT_S)
    assert memory.share_of(0) == 32 * SHARE_BYTES_MIN


def lend(buffers: AppendMemory, size: int) -> BatchBuilder:
    builder = buffers.take_nowait(size, UNCOMPRESSED)
    assert builder is not None
    return builder


async def test_buffers_of_an_old_size_give_way_to_those_that_are_needed() -> None:
    buffers = AppendMemory(4 * KEPT_BYTES_MAX, lambda size: None)
    for size in (KEPT_BYTES_MAX // 2, KEPT_BYTES_MAX // 8):
        for builder in [lend(buffers, size) for _ in range(4)]:
            buffers.give_back(builder)
    kept = [lend(buffers, KEPT_BYTES_MAX // 8) for _ in range(4)]
    for builder in kept:
        buffers.give_back(builder)
    again = [lend(buffers, KEPT_BYTES_MAX // 8) for _ in range(4)]
    assert set(map(id, again)) == set(map(id, kept))


async def test_writers_that_wait_for_memory_are_served_in_order(nursery: trio.Nursery) -> None:
    buffers = AppendMemory(2 * KIB, lambda size: None)
    lent = [lend(buffers, KIB), lend(buffers, KIB)]
    served = []

    async def wait(number: int) -> None:
        lent.append(await buffers.take(KIB, UNCOMPRESSED))
        served.append(number)

    for number in range(4):
        nursery.start_soon(wait, number)
        await wait_all_tasks_blocked()
    for number in range(4):
        buffers.give_back(lent.pop(0))
        assert buffers.take_nowait(KIB, UNCOMPRESSED) is None  # a later caller does not get ahead
        await wait_all_tasks_blocked()
        assert served == list(range(number + 1))


async def test_a_large_batch_is_not_starved_by_small_ones(nursery: trio.Nursery) -> None:
    buffers = AppendMemory(4 * KIB, lambda size: None)
    lent = [lend(buffers, KIB) for _ in range(4)]
    served = []

    async def wait() -> None:
        await buffers.take(3 * KIB, UNCOMPRESSED)
        served.append("large")

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    for builder in lent[:3]:
        assert not buffers.has_space(KIB) and served == []
        buffers.give_back(builder)
    await wait_all_tasks_blocked()
    assert served == ["large"]


async def test_a_writer_that_gives_up_waiting_takes_nothing_with_it(
    appends: MakeAppends, nursery: trio.Nursery
) -> None:
    world = appends(batch_bytes=KIB, buffer_bytes=2 * KIB)
    world.threads.hold()
    take(world.accumulator(0), b"line\n"), take(world.accumulator(1), b"line\n")
    with trio.CancelScope() as giving_up:
        nursery.start_soon(world.accumulator(5).wait_for_space, FakeWriter())
        await wait_all_tasks_blocked()
        giving_up.cancel()
        await world.accumulator(6).wait_for_space(FakeWriter())
    world.threads.let_go()
    await world.accumulators.flush_all()
    await world.accumulator(6).wait_for_space(FakeWriter())
    assert take(world.accumulator(6), b"line\n") == 5


async def test_an_idle_mount_lends_no_memory(appends: MakeAppends) -> None:
    world = appends()
    for number in range(10):
        take(world.accumulator(number), b"line\n")
    await world.accumulators.flush_all()
    assert world.accumulators.context.memory.lent_bytes == 0


async def test_a_record_larger_than_a_batch_makes_a_batch_of_its_own(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    long = b"x" * 5000
    assert take(world.accumulator(), b"short\n" + long + b"\n") == 5007
    await world.accumulator().drain()
    assert world.log().batches == [[b"short"], [long]]


async def test_a_line_above_max_message_bytes_is_left_where_it_is(appends: MakeAppends) -> None:
    world = appends(topic={"max.message.bytes": "1000"})
    assert take(world.accumulator(), b"short\n" + b"x" * 1000 + b"\n") == 6
    await world.accumulator().drain()
    assert world.log().values == [b"short"]


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("limit", [300, 5000, 1 << 20])
async def test_what_does_not_compress_still_fits_max_message_bytes(
    appends: MakeAppends, codec: str, limit: int
) -> None:
    world = appends(topic={"compression.type": codec, "max.message.bytes": str(limit)})
    noise = os.urandom(3 * limit).replace(b"\n", b"-")
    size = world.accumulator().batch_bytes_max - 61 - 12
    take(world.accumulator(), noise[:size] + b"\n")
    await world.accumulator().drain()
    assert world.log().values == [noise[:size]] and world.log().sizes[0] <= limit


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.expect_log("not written")
async def test_a_batch_that_cannot_be_written_fails_every_writer_with_records_in_it(appends: MakeAppends) -> None:
    world = appends()
    first, second, other = FakeWriter(), FakeWriter(), FakeWriter()
    take(world.accumulator(), b"one\n", first)
    take(world.accumulator(), b"two\n", second)
    take(world.accumulator(1), b"three\n", other)
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    await world.accumulators.flush_all()
    assert (first.code, second.code, other.code) == (errno.ENOSPC, errno.ENOSPC, None)


@pytest.mark.expect_log("not written")
async def test_nothing_accepted_before_the_failure_was_known_is_written_after_the_gap(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    writer = FakeWriter()
    world.threads.hold()
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    taken = take(world.accumulator(), b"".join(b"%0100d\n" % number for number in range(12)), writer)
    await wait_all_tasks_blocked()
    world.threads.let_go()
    await wait_all_tasks_blocked()
    world.log().append_failure = None
    await world.accumulator().drain()
    assert taken == 12 * 101 and writer.code == errno.ENOSPC and world.log().batches == []
    assert world.accumulators.context.memory.lent_bytes == 0


@pytest.mark.expect_log("not written")
async def test_a_batch_that_fails_on_the_loop_lets_nothing_of_the_same_write_follow(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    take(world.accumulator(), b"first\n")
    await world.accumulator().drain()
    writer = FakeWriter()
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    data = b"".join(b"%0100d\n" % number for number in range(12))
    assert take(world.accumulator(), data, writer) < len(data)
    world.log().append_failure = None
    await world.accumulator().drain()
    assert writer.code == errno.ENOSPC and world.log().values == [b"first"]


@pytest.mark.expect_log("not written")
async def test_a_full_disk_does_not_spoil_the_partition(appends: MakeAppends) -> None:
    world = appends()
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    take(world.accumulator(), b"lost\n")
    await world.accumulator().drain()
    world.log().append_failure = None
    late = FakeWriter()
    take(world.accumulator(), b"kept\n", late)
    await world.accumulator().drain()
    assert late.code is None and world.log().values == [b"kept"]


@pytest.mark.expect_log("not written")
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OSError(errno.EDQUOT, "quota"), errno.EDQUOT),
        (OSError(errno.EIO, "disk"), errno.EIO),
        (LogFailed("an earlier write failed"), errno.EIO),
        (RecordTooLarge("too large"), errno.EMSGSIZE),
        (AssertionError("a mistake of ours"), errno.EIO),
    ],
)
async def test_the_errno_names_the_cause(appends: MakeAppends, failure: Exception, code: int) -> None:
    world = appends()
    writer = FakeWriter()
    world.log().append_failure = failure
    take(world.accumulator(), b"lost\n", writer)
    await world.accumulator().drain()
    assert writer.code == code


async def test_a_write_that_cannot_fit_on_the_disk_is_refused_before_it_is_taken(
    appends: MakeAppends, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = appends()
    disk = SimpleNamespace(f_bfree=17, f_bavail=17, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    with pytest.raises(OSError) as caught:
        take(world.accumulator(), b"x" * 5000 + b"\n")
    assert caught.value.errno == errno.ENOSPC
    disk.f_bfree = disk.f_bavail = 18
    assert take(world.accumulator(), b"x" * 5000 + b"\n") == 5001


async def test_what_is_accepted_and_not_yet_written_counts_as_taken_from_the_disk(
    appends: MakeAppends, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = appends(linger_ms=60_000)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bfree=18, f_bavail=18, f_frsize=4096))
    take(world.accumulator(), b"x" * 5000 + b"\n")
    with pytest.raises(OSError) as caught:
        take(world.accumulator(1), b"x" * 5000 + b"\n")
    assert caught.value.errno == errno.ENOSPC


async def test_a_full_disk_gets_what_logs_set_aside_before_a_writer_is_refused(
    appends: MakeAppends, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, left = appends(), 20
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bfree=left, f_bavail=left, f_frsize=4096))
    take(world.accumulator(), b"first\n")

    def give_back() -> None:
        nonlocal left
        left = 1000

    monkeypatch.setattr(world.log(), "release_preallocation", give_back)
    take(world.accumulator(), b"x" * (200 * KIB) + b"\n")
    assert left == 1000
    await world.accumulator().drain()
    assert [len(value) for value in world.log().values] == [5, 200 * KIB]


@pytest.mark.long
@pytest.mark.parametrize("line", [b"%099d\n" % 1, b"a\n", b"\n"], ids=["100 bytes", "2 bytes", "empty"])
async def test_what_a_disk_cannot_hold_is_refused_by_a_write_and_never_lost_later(
    appends: MakeAppends, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    world = appends(batch_bytes=64 * KIB)
    size = 2 << 20
    monkeypatch.setattr(os, "statvfs", lambda path: disk(size - sum(world.log().sizes)))

    def disk(free: int) -> SimpleNamespace:
        return SimpleNamespace(f_bfree=free // 4096, f_bavail=free // 4096, f_frsize=4096)

    writer, data, refused = FakeWriter(), line * 100, None
    while refused is None:
        try:
            if take(world.accumulator(), data, writer) < len(data):
                await world.accumulator().wait_for_space(FakeWriter())
        except OSError as error:
            refused = error.errno
    await world.accumulator().drain()
    assert refused == errno.ENOSPC and writer.code is None
    assert size * 0.9 < sum(world.log().sizes) <= size


@pytest.mark.parametrize(
    ("name", "code"),
    [("read-only log", errno.EROFS), ("read-only mount", errno.EROFS), ("failed", errno.EIO), ("end", errno.ESHUTDOWN)],
)
async def test_a_target_that_takes_no_records_fails_at_once(appends: MakeAppends, name: str, code: int) -> None:
    world = appends(read_only=name == "read-only mount")
    accumulator = world.accumulator()
    world.log().read_only = name == "read-only log"
    world.log().failure = OSError(errno.EIO, "disk") if name == "failed" else None
    if name == "end":
        world.accumulators.context.memory.close()
    with pytest.raises(OSError) as caught:
        take(accumulator, b"line\n")
    assert caught.value.errno == code


async def test_a_compacted_log_takes_no_record_without_a_key(appends: MakeAppends) -> None:
    world = appends(topic={"cleanup.policy": "compact"})
    without_keys: tuple[Callable[[], object], ...] = (
        lambda: take(world.accumulator(), b"line\n"),
        lambda: world.accumulator().append(None, b"value", (), NOW, FakeWriter()),
    )
    for without_key in without_keys:
        with pytest.raises(OSError) as caught:
            without_key()
        assert caught.value.errno == errno.EINVAL
    assert world.accumulator().append(b"key", b"value", (), NOW, FakeWriter())


async def test_a_writer_that_waits_for_memory_is_sent_away_at_the_end_of_the_mount(
    appends: MakeAppends, nursery: trio.Nursery
) -> None:
    world = appends(batch_bytes=KIB, buffer_bytes=2 * KIB)
    world.threads.hold()
    take(world.accumulator(0), b"line\n"), take(world.accumulator(1), b"line\n")
    codes = []

    async def wait() -> None:
        try:
            await world.accumulator(5).wait_for_space(FakeWriter())
        except OSError as error:
            codes.append(error.errno)

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    world.accumulators.context.memory.close()
    await wait_all_tasks_blocked()
    assert codes == [errno.ESHUTDOWN]


# --- onto the disk ---------------------------------------------------------------------------------------------------


async def test_sync_returns_when_everything_taken_is_on_disk(appends: MakeAppends) -> None:
    world = appends(flush_ms=None)
    take(world.accumulator(), b"one\ntwo\n")
    await world.accumulator().sync()
    assert (world.log().synced, world.log().flushes) == (2, 1)


async def test_sync_of_what_is_on_disk_already_costs_nothing(appends: MakeAppends) -> None:
    world = appends(flush_ms=None)
    take(world.accumulator(), b"one\n")
    await world.accumulator().sync()
    await world.accumulator().sync()
    assert world.log().flushes == 1


async def test_any_number_of_callers_share_two_syncs(appends: MakeAppends, nursery: trio.Nursery) -> None:
    world = appends(flush_ms=None)
    take(world.accumulator(), b"first\n")
    await world.accumulator().drain()
    world.threads.hold()
    done = []

    async def sync(number: int) -> None:
        take(world.accumulator(), b"%d\n" % number)
        await world.accumulator().sync()
        done.append((number, world.log().synced))

    for number in range(20):
        nursery.start_soon(sync, number)
    await wait_all_tasks_blocked()
    assert done == []
    world.threads.let_go()
    await wait_all_tasks_blocked()
    assert len(done) == 20 and world.log().flushes <= 2
    assert all(synced == 21 for _, synced in done)


@pytest.mark.parametrize(
    ("options", "topic", "due_s"),
    [
        pytest.param({}, {}, 1.0, id="the default"),
        pytest.param({"flush_ms": 200}, {}, 0.2, id="the mount's"),
        pytest.param({"flush_ms": 5000}, {"flush.ms": "300"}, 0.3, id="the topic's, when it is shorter"),
        pytest.param({"flush_ms": None}, {"flush.ms": "300"}, 0.3, id="the topic's alone"),
    ],
)
async def test_records_are_on_disk_after_flush_ms(
    appends: MakeAppends, autojump_clock: MockClock, options: dict[str, int | None], topic: dict[str, str], due_s: float
) -> None:
    world = appends(topic=topic, linger_ms=0, **options)
    take(world.accumulator(), b"one\n")
    await wait_all_tasks_blocked()
    await trio.sleep(due_s - 0.01)
    assert world.log().synced == 0
    await trio.sleep(0.02)
    assert world.log().synced == 1


async def test_every_record_is_on_disk_within_flush_ms_however_they_come(
    appends: MakeAppends, autojump_clock: MockClock
) -> None:
    world = appends(linger_ms=0, flush_ms=100)
    for number in range(50):
        take(world.accumulator(), b"line\n")
        await trio.sleep(0.03)
        assert number - world.log().synced <= 5
    await trio.sleep(0.2)
    assert world.log().synced == 50 and world.log().flushes <= 20


async def test_what_a_broker_in_the_process_appends_is_on_disk_within_flush_ms(
    appends: MakeAppends, autojump_clock: MockClock
) -> None:
    world = appends(flush_ms=200)
    log = world.log(7)
    partition = log.partition
    for _ in range(2):
        log.unsynced.add(1, 10, 100, trio.current_time())
        log.next_offset += 10
        world.accumulators.appended(partition)
        await trio.sleep(0.19)
        assert log.unsynced.total.records == 10 and world.accumulators.unsynced_partitions() == [partition]
        await trio.sleep(0.02)
        assert log.synced == log.next_offset and world.accumulators.unsynced_partitions() == []
    await trio.sleep(2)


async def test_nothing_is_synced_unasked_when_both_limits_are_off(
    appends: MakeAppends, autojump_clock: MockClock
) -> None:
    world = appends(flush_ms=None)
    take(world.accumulator(), b"one\n")
    await trio.sleep(10_000)
    assert (world.log().values, world.log().flushes) == ([b"one"], 0)


async def test_with_flush_ms_0_the_last_close_returns_when_it_is_on_disk(appends: MakeAppends) -> None:
    world = appends(flush_ms=0)
    for number in range(3):
        take(world.accumulator(), b"line\n")
        await world.accumulator().drain()
        assert world.log().synced == number + 1


@pytest.mark.parametrize("where", ["mount", "topic"])
async def test_records_are_on_disk_after_flush_messages(appends: MakeAppends, where: str) -> None:
    options = {"flush_messages": 10} if where == "mount" else {"topic": {"flush.messages": "10"}}
    world = appends(linger_ms=0, flush_ms=None, **options)
    take(world.accumulator(), b"line\n" * 9)
    await wait_all_tasks_blocked()
    assert world.log().synced == 0
    take(world.accumulator(), b"line\n")
    await wait_all_tasks_blocked()
    assert world.log().synced == 10


@pytest.mark.expect_log("sync failed")
async def test_a_failed_sync_fails_every_writer_with_records_in_it(appends: MakeAppends) -> None:
    world = appends(flush_ms=None)
    saved, lost, innocent = FakeWriter(), FakeWriter(), FakeWriter()
    take(world.accumulator(), b"saved\n", saved)
    await world.accumulator().sync()
    take(world.accumulator(), b"lost\n", lost)
    take(world.accumulator(1), b"elsewhere\n", innocent)
    world.log().flush_failure = OSError(errno.EIO, "disk")
    with pytest.raises(OSError) as caught:
        await world.accumulator().sync()
    assert (caught.value.errno, saved.code, lost.code, innocent.code) == (errno.EIO, None, errno.EIO, None)


async def test_a_partition_that_is_deleted_before_its_sync_is_stale_and_no_failure(appends: MakeAppends) -> None:
    world, writer = appends(flush_ms=None), FakeWriter()
    take(world.accumulator(), b"of a deleted partition\n", writer)
    await world.accumulator().drain()
    world.log().flush_failure = UnknownPartition("the partition was deleted")
    world.log().is_gone = True
    accumulator = next(iter(world.accumulators.by_partition.values()))
    with pytest.raises(OSError) as caught:
        await accumulator.sync()
    assert (caught.value.errno, writer.code) == (errno.ESTALE, errno.ESTALE)
    assert world.accumulators.context.counters.sync_failures == 0 and not accumulator.is_dirty


async def test_a_sync_that_finds_no_descriptor_is_made_again_and_loses_nothing(appends: MakeAppends) -> None:
    world, writer = appends(flush_ms=None), FakeWriter()
    take(world.accumulator(), b"line\n", writer)
    world.log().flush_failure = OSError(errno.EMFILE, "too many open files")
    with pytest.raises(OSError) as caught:
        await world.accumulator().sync()
    assert (caught.value.errno, writer.code) == (errno.EMFILE, None)
    assert world.accumulator().is_dirty
    world.log().flush_failure = None
    await world.accumulator().sync()
    assert (world.log().synced, writer.code) == (1, None)


@pytest.mark.expect_log("sync failed")
async def test_after_a_failed_sync_nothing_is_acknowledged_any_more(appends: MakeAppends) -> None:
    world = appends(flush_ms=None)
    take(world.accumulator(), b"lost\n")
    world.log().flush_failure = OSError(errno.EIO, "disk")
    with pytest.raises(OSError):
        await world.accumulator().sync()
    world.log().flush_failure = None  # the kernel reports a lost page once
    with pytest.raises(OSError):
        await world.accumulator().sync()
    with pytest.raises(OSError) as caught:
        take(world.accumulator(), b"late\n")
    assert caught.value.errno == errno.EIO


@pytest.mark.expect_log("sync failed")
async def test_a_failed_sync_without_a_waiting_writer_is_logged(
    appends: MakeAppends, autojump_clock: MockClock
) -> None:
    world = appends()
    writer = FakeWriter()
    take(world.accumulator(), b"lost\n", writer)
    world.log().flush_failure = OSError(errno.EIO, "disk")
    await trio.sleep(2)
    assert writer.code == errno.EIO


@pytest.mark.expect_log("not written")
async def test_with_flush_ms_0_a_failed_sync_fails_the_batch(appends: MakeAppends) -> None:
    world = appends(flush_ms=0)
    writer = FakeWriter(wants_offsets=True)
    take(world.accumulator(), b"lost\n", writer)
    world.log().flush_failure = OSError(errno.EIO, "disk")
    await world.accumulator().drain()
    assert (writer.code, writer.acknowledgments) == (errno.EIO, [])


async def test_close_has_everything_on_disk(appends: MakeAppends) -> None:
    world = appends(flush_ms=None, linger_ms=60_000)
    for number in range(20):
        take(world.accumulator(number), b"line\n")
    assert await world.accumulators.close() == {}
    assert [world.log(number).synced for number in range(20)] == [1] * 20


@pytest.mark.expect_log("sync failed")
async def test_close_names_the_partitions_that_are_not_on_disk(appends: MakeAppends) -> None:
    world = appends(flush_ms=None)
    for number in range(3):
        take(world.accumulator(number), b"line\n")
    world.log(1).flush_failure = OSError(errno.EIO, "disk")
    failures = await world.accumulators.close()
    assert [str(partition) for partition in failures] == ["orders-1"]
    assert (world.log(0).synced, world.log(2).synced) == (1, 1)


async def test_close_does_not_lose_what_a_thread_is_just_writing(appends: MakeAppends, nursery: trio.Nursery) -> None:
    world = appends(flush_ms=None)
    take(world.accumulator(), b"line\n")
    world.threads.hold()
    world.accumulator().seal()
    await wait_all_tasks_blocked()
    nursery.start_soon(world.accumulators.close)
    await wait_all_tasks_blocked()
    assert world.log().values == []
    world.threads.let_go()
    await wait_all_tasks_blocked()
    assert world.log().synced == 1


async def test_what_is_left_counts_down_as_it_comes_to_the_disk(appends: MakeAppends) -> None:
    world = appends(flush_ms=None, linger_ms=60_000)
    assert world.accumulators.unsynced() == Unsynced()
    for number in range(2):
        take(world.accumulator(number), b"line\n")
    waiting = world.accumulators.unsynced()
    assert waiting.batches == 2 and waiting.size > 2 * len(b"line")
    await world.accumulator(0).drain()
    left = world.accumulators.unsynced()
    assert (left.batches, left.records, left.size) == (2, 2, waiting.size), "in the file is not on disk"
    await world.accumulator(0).sync()
    assert (world.accumulators.unsynced().batches, world.accumulators.unsynced().size) == (1, waiting.size // 2)
    await world.accumulators.close()
    assert world.accumulators.unsynced() == Unsynced()


@pytest.mark.expect_log("sync failed")
async def test_nothing_is_left_of_what_is_lost(appends: MakeAppends) -> None:
    world = appends(flush_ms=None)
    take(world.accumulator(), b"line\n")
    world.log().flush_failure = OSError(errno.EIO, "disk")
    await world.accumulators.close()
    assert world.accumulators.unsynced() == Unsynced()


def test_the_defaults_are_those_of_the_documentation() -> None:
    options = MountOptions()
    assert (options.linger_ms, options.batch_bytes, options.buffer_bytes) == (5, 1 << 20, 32 << 20)
    assert (options.flush_ms, options.flush_messages) == (1000, None)
