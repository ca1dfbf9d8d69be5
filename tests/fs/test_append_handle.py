"""An open `append` file: what becomes a record, what is refused and how, and what each system call promises."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import trio
from fixtures.mounts.fake_appends import Appends, FakeTarget, MakeAppends
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from offsetfs.fs.appends.framing import JsonLines, Lines, Whole
from offsetfs.fs.appends.handles import RANGES_MAX, AppendHandle
from offsetfs.fs.appends.open_files import RELEASE_S
from offsetfs.fs.appends.target import AppendTarget, Sticky
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch import HEADER_SIZE
from offsetfs.storage.records.format.batch_builder import BatchBuilder, record_size, value_bytes_max

pytestmark = pytest.mark.unit


KIB = 1 << 10


def opened(world: Appends, flags: int = os.O_WRONLY, number: int = 0) -> AppendHandle:
    return AppendHandle(world.target(number), flags)


async def write(handle: AppendHandle, *pieces: bytes) -> None:
    """Write as write_all in a C library does: again with the rest, until all is taken or an error comes."""
    for piece in pieces:
        while piece:
            piece = piece[await handle.write(piece) :]


async def code_of(call: Awaitable[object]) -> int | None:
    """Return the errno that the call ends with, None when it succeeds."""
    try:
        await call
    except OSError as error:
        return error.errno
    return None


# --- framing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "records"),
    [
        pytest.param([b"one\n"], [b"one"], id="a line"),
        pytest.param([b"one\ntwo\nthree\n"], [b"one", b"two", b"three"], id="lines"),
        pytest.param([b"\n\n"], [b"", b""], id="empty lines"),
        pytest.param([b"one\r\ntwo\r\n"], [b"one\r", b"two\r"], id="CR is kept"),
        pytest.param([b"on", b"e\n"], [b"one"], id="a line in two writes"),
        pytest.param([b"one", b"\n"], [b"one"], id="text and newline apart, as print does"),
        pytest.param([b"o", b"n", b"e", b"\n", b"t", b"wo\nth", b"ree\n"], [b"one", b"two", b"three"], id="pieces"),
        pytest.param([b"one\ntw", b"o\n"], [b"one", b"two"], id="cut mid-line, as tee does"),
        pytest.param(
            [bytes(range(256)).replace(b"\n", b"") + b"\n"], [bytes(range(256)).replace(b"\n", b"")], id="bytes"
        ),
        pytest.param([b"one\ntwo"], [b"one"], id="an unfinished line is no record yet"),
        pytest.param([b""], [], id="nothing"),
    ],
)
async def test_each_line_is_a_record(appends: MakeAppends, pieces: list[bytes], records: list[bytes]) -> None:
    world = appends()
    handle = opened(world)
    for piece in pieces:
        assert await handle.write(piece) == len(piece)
    await handle.flush()
    assert world.log().values == records


async def test_an_unfinished_line_becomes_a_record_with_the_last_close(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world)
    await write(handle, b"one\ntw", b"o")
    await handle.flush()
    await handle.flush()
    assert world.log().values == [b"one"]
    await handle.release()
    assert world.log().values == [b"one", b"two"]


async def test_two_writers_do_not_tear_each_others_lines(appends: MakeAppends) -> None:
    world = appends()
    first, second = opened(world), opened(world)
    await write(first, b"fir")
    await write(second, b"se")
    await write(first, b"st\n")
    await write(second, b"cond\n")
    await first.flush()
    assert world.log().values == [b"first", b"second"]


async def test_a_long_line_may_come_byte_by_byte(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world)
    for _ in range(20_000):
        await handle.write(b"x")
    await handle.write(b"\n")
    await handle.flush()
    assert world.log().values == [b"x" * 20_000]


@pytest.mark.long
@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))), st.lists(st.integers(0, 400)))
def test_where_writes_are_cut_means_nothing(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    ends = sorted(min(cut, len(data)) for cut in cuts)
    pieces = [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    target = Collector()

    async def run() -> None:
        handle = AppendHandle(cast(AppendTarget, target), os.O_WRONLY)
        await write(handle, *pieces)
        await handle.release()

    trio.run(run)
    assert target.values == lines


class Collector(FakeTarget):
    """A target that only looks at what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[bytes] = []

    def split(self, data: bytes, start: int, end: int, timestamp: int, writer: AppendHandle) -> int:
        BatchBuilder(1 << 20).split(data, start, end, timestamp)
        assert data[end - 1 : end] == b"\n"
        self.values += data[start : end - 1].split(b"\n")
        return end


# --- a record that is too large --------------------------------------------------------------------------------------

LIMIT = {"max.message.bytes": "1000"}
LONGEST = value_bytes_max(1000)


@pytest.mark.parametrize("batch_bytes", [62, 68, 69, 100, 130, 1000, 8300, 1 << 20, (1 << 20) + 12])
def test_the_longest_line_just_fits_its_batch(batch_bytes: int) -> None:
    longest = value_bytes_max(batch_bytes)
    fits = longest >= 0 and HEADER_SIZE + record_size(None, b"x" * longest) <= batch_bytes
    assert fits or longest == -1
    assert HEADER_SIZE + record_size(None, b"x" * (longest + 1)) > batch_bytes


@pytest.mark.parametrize("pieces", [1, 2, 7], ids=["in one write", "in two", "in seven"])
async def test_a_line_of_just_max_message_bytes_is_taken(appends: MakeAppends, pieces: int) -> None:
    world = appends(topic=LIMIT)
    handle = opened(world)
    line = b"x" * LONGEST + b"\n"
    step = -(-len(line) // pieces)
    await write(handle, *(line[start : start + step] for start in range(0, len(line), step)))
    await handle.flush()
    assert world.log().values == [b"x" * LONGEST] and world.log().sizes == [1000]


TOO_LONG = b"x" * (LONGEST + 1)


@pytest.mark.parametrize(
    ("pieces", "answers", "records"),
    [
        pytest.param([TOO_LONG + b"\n"], [errno.EMSGSIZE], [], id="alone"),
        pytest.param([TOO_LONG], [errno.EMSGSIZE], [], id="alone, not even finished"),
        pytest.param([b"a\nb\n" + TOO_LONG + b"\nc\n"], ["4"], [b"a", b"b"], id="what came before is kept"),
        pytest.param([b"a\nb\n" + TOO_LONG], ["4"], [b"a", b"b"], id="before an unfinished one"),
        pytest.param([b"a\n" + TOO_LONG[:600], TOO_LONG], ["602", errno.EMSGSIZE], [b"a"], id="found out later"),
        pytest.param([TOO_LONG[:600], TOO_LONG[600:] + b"\nb\n"], ["600", errno.EMSGSIZE], [], id="by its end"),
        pytest.param([b"a\n" + TOO_LONG[:9], b"\n" + TOO_LONG], ["11", "1"], [b"a", b"x" * 9], id="the next one"),
        pytest.param([TOO_LONG, b"\n", b"b\n"], [errno.EMSGSIZE] * 3, [], id="refused once, refused until closed"),
        pytest.param([b"a\n" + TOO_LONG, b"b\n"], ["2", errno.EMSGSIZE], [b"a"], id="also after a short count"),
    ],
)
async def test_a_line_above_max_message_bytes_is_refused(
    appends: MakeAppends, pieces: list[bytes], answers: list[int | str], records: list[bytes]
) -> None:
    world = appends(topic=LIMIT)
    handle = opened(world)
    given_answers: list[int | str] = []
    for piece in pieces:
        try:
            given_answers.append(str(await handle.write(piece)))
        except OSError as error:
            given_answers.append(error.errno or 0)
    await handle.release()
    assert given_answers == answers
    assert world.log().values == records


async def test_another_handle_is_not_touched_by_a_refusal(appends: MakeAppends) -> None:
    world = appends(topic=LIMIT)
    refused, other = opened(world), opened(world)
    assert await code_of(refused.write(TOO_LONG)) == errno.EMSGSIZE
    assert await other.write(b"fine\n") == 5


# --- no space --------------------------------------------------------------------------------------------------------


def lines(count: int) -> bytes:
    return b"".join(b"%099d\n" % number for number in range(count))


async def test_a_write_waits_for_space(appends: MakeAppends, nursery: trio.Nursery) -> None:
    world = appends(batch_bytes=KIB)
    handle = opened(world)
    world.threads.hold()
    taken: list[int] = []

    async def write_all() -> None:
        taken.append(await handle.write(lines(100)))

    nursery.start_soon(write_all)
    await wait_all_tasks_blocked()
    assert taken == []
    world.threads.let_go()
    await wait_all_tasks_blocked()
    await handle.flush()
    assert taken == [10_000] and len(world.log().values) == 100


async def test_without_space_a_nonblocking_write_takes_what_it_can_and_then_nothing(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    handle = opened(world, os.O_WRONLY | os.O_NONBLOCK)
    world.threads.hold()
    taken = await handle.write(lines(100))
    assert 0 < taken < 10_000 and taken % 100 == 0
    assert await code_of(handle.write(lines(100)[taken:])) == errno.EAGAIN
    world.threads.let_go()
    await handle.flush()
    await write_nonblocking(handle, lines(100)[taken:])
    assert world.log().values == lines(100).splitlines()


async def test_a_carried_line_that_does_not_fit_is_completed_by_the_same_bytes_later(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    handle = opened(world, os.O_WRONLY | os.O_NONBLOCK)
    world.threads.hold()
    taken = await handle.write(lines(100))
    blocked = opened(world, os.O_WRONLY | os.O_NONBLOCK)
    assert await blocked.write(b"carr") == 4
    assert await code_of(blocked.write(b"ied\n")) == errno.EAGAIN
    world.threads.let_go()
    await handle.flush()
    await write_nonblocking(blocked, b"ied\n")
    assert world.log().values == [*lines(100)[:taken].splitlines(), b"carried"]


async def write_nonblocking(handle: AppendHandle, data: bytes) -> None:
    while data:
        try:
            data = data[await handle.write(data) :]
        except BlockingIOError:
            await handle.flush()
    await handle.flush()


async def test_a_write_answers_before_the_kernel_loses_patience(
    appends: MakeAppends, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    world = appends(batch_bytes=KIB, request_timeout_s=20.0)
    handle = opened(world)
    world.threads.hold()
    taken = await handle.write(lines(100))
    assert 0 < taken < 10_000
    assert await code_of(handle.write(lines(100))) == errno.EINTR
    assert autojump_clock.current_time() == 20.0


async def test_an_unfinished_line_waits_for_space_even_when_the_handle_does_not(
    appends: MakeAppends, nursery: trio.Nursery
) -> None:
    world = appends(batch_bytes=KIB)
    handle = opened(world, os.O_WRONLY | os.O_NONBLOCK)
    world.threads.hold()
    taken = await handle.write(lines(100))
    late = opened(world, os.O_WRONLY | os.O_NONBLOCK)
    await late.write(b"late")
    nursery.start_soon(late.release)
    await wait_all_tasks_blocked()
    world.threads.let_go()
    await wait_all_tasks_blocked()
    assert world.log().values == [*lines(100)[:taken].splitlines(), b"late"]


async def test_unfinished_lines_of_all_handles_together_are_bounded(appends: MakeAppends) -> None:
    world = appends()
    handles = [opened(world) for _ in range(40)]
    unfinished = b"x" * 1_040_000
    codes = [await code_of(handle.write(unfinished)) for handle in handles]
    assert codes.count(None) == 32 and codes[32:] == [errno.ENOBUFS] * 8
    assert await handles[-1].write(b"whole\n" + unfinished) == len(b"whole\n")
    for handle in handles[:20]:
        await handle.release()
    assert await handles[-1].write(unfinished) == len(unfinished)
    for handle in handles[20:]:
        await handle.release()
    assert world.accumulators.context.memory.unfinished_bytes == 0
    assert len(world.log().values) == 34


# --- files that are closed one after the other ------------------------------------------------------------------------


def closed(handle: AppendHandle, nursery: trio.Nursery) -> None:
    """Close as the mount does on RELEASE: what waits goes on by itself."""
    handle.close()
    nursery.start_soon(handle.release)


FRAMINGS = pytest.mark.parametrize(
    ("framing", "text"),
    [(Lines, b"%d"), (Whole, b"%d"), (JsonLines, b'{"value":"%d"}')],
    ids=["append", "append.raw", "append.ndjson"],
)


@FRAMINGS
@pytest.mark.parametrize("linger_ms", [0, 5])
async def test_files_closed_one_after_the_other_have_their_records_in_that_order(
    appends: MakeAppends, nursery: trio.Nursery, framing: type[Lines], text: bytes, linger_ms: int
) -> None:
    world = appends(linger_ms=linger_ms, batch_bytes=KIB)
    world.threads.hold()
    for number in range(60):
        handle = AppendHandle(world.target(), os.O_WRONLY, framing())
        await write(handle, text % number)
        await trio.lowlevel.checkpoint()
        closed(handle, nursery)
    world.threads.let_go()
    await world.accumulators.close()
    assert world.log().values == [b"%d" % number for number in range(60)]


@FRAMINGS
async def test_files_of_a_topic_closed_in_turn_keep_their_order(
    appends: MakeAppends, nursery: trio.Nursery, framing: type[Lines], text: bytes
) -> None:
    world = appends(linger_ms=0, batch_bytes=KIB)
    accumulators, sticky = [world.accumulator(number) for number in range(3)], Sticky()
    world.threads.hold()
    for number in range(60):
        target = AppendTarget(accumulators, sticky)
        handle = AppendHandle(target, os.O_WRONLY, framing())
        await write(handle, text % number)
        closed(handle, nursery)
    world.threads.let_go()
    await world.accumulators.close()
    values = [[int(value) for value in world.log(number).values] for number in range(3)]
    assert values == [sorted(each) for each in values] and sum(map(len, values)) == 60


async def test_a_line_does_not_overtake_the_unfinished_record_of_a_file_closed_before(
    appends: MakeAppends, nursery: trio.Nursery
) -> None:
    world = appends(linger_ms=0, batch_bytes=KIB)
    world.threads.hold()
    written: list[bytes] = []

    async def write_all() -> None:
        for number in range(40):
            first, second = opened(world), opened(world)
            await write(first, b"closed %d" % number)
            closed(first, nursery)
            await write(second, b"line %d\n" % number)
            written.extend([b"closed %d" % number, b"line %d" % number])

    nursery.start_soon(write_all)
    for _ in range(100):
        await wait_all_tasks_blocked()
        world.threads.let_go()
        await trio.lowlevel.checkpoint()
        world.threads.hold()
    world.threads.let_go()
    await wait_all_tasks_blocked()
    await world.accumulators.close()
    assert len(written) == 80 and world.log().values == written


async def test_writers_that_wait_for_space_are_served_in_the_order_in_which_they_came(
    appends: MakeAppends, nursery: trio.Nursery
) -> None:
    world = appends(linger_ms=0, batch_bytes=KIB)
    world.threads.hold()
    for number in range(40):
        nursery.start_soon(write, opened(world), b"%d\n" % number)
        await wait_all_tasks_blocked()
    world.threads.let_go()
    await wait_all_tasks_blocked()
    await world.accumulators.close()
    assert world.log().values == [b"%d" % number for number in range(40)]


async def test_a_sync_covers_the_unfinished_records_of_files_closed_before(
    appends: MakeAppends, nursery: trio.Nursery
) -> None:
    world = appends(linger_ms=0, batch_bytes=KIB)
    world.threads.hold()
    for number in range(9):
        handle = opened(world)
        await write(handle, b"%d" % number)
        closed(handle, nursery)
    nursery.start_soon(world.accumulator().sync)
    await wait_all_tasks_blocked()
    world.threads.let_go()
    await wait_all_tasks_blocked()
    assert world.log().synced == 9


async def test_a_file_closed_before_the_mount_ends_keeps_its_waiting_record(
    appends: MakeAppends, nursery: trio.Nursery
) -> None:
    world = appends(linger_ms=0, batch_bytes=KIB)
    world.threads.hold()
    for number in range(9):
        handle = opened(world)
        await write(handle, b"%d" % number)
        closed(handle, nursery)
    nursery.start_soon(world.accumulators.close)
    await wait_all_tasks_blocked()
    world.threads.let_go()
    await wait_all_tasks_blocked()
    assert world.log().values == [b"%d" % number for number in range(9)]


async def test_a_file_that_is_released_twice_has_its_record_once(appends: MakeAppends, nursery: trio.Nursery) -> None:
    world = appends(linger_ms=0, batch_bytes=KIB)
    world.threads.hold()
    for number in range(9):
        handle = opened(world)
        await write(handle, b"%d" % number)
        closed(handle, nursery)
    nursery.start_soon(world.accumulators.release_all)
    await wait_all_tasks_blocked()
    world.threads.let_go()
    await world.accumulators.close()
    assert world.log().values == [b"%d" % number for number in range(9)]
    assert not world.accumulators.context.files.writers and world.accumulators.context.memory.unfinished_bytes == 0


async def test_what_is_written_while_fsync_ends_a_raw_record_begins_the_next_one(
    appends: MakeAppends, nursery: trio.Nursery
) -> None:
    world = appends(linger_ms=0, batch_bytes=KIB)
    world.threads.hold()
    for number in range(3):  # more than fit
        closed(await raw(world, b"%d" % number), nursery)
    handle = await raw(world, b"first")
    nursery.start_soon(handle.fsync)
    await wait_all_tasks_blocked()
    handle.place(5)
    await handle.write(b"second")
    world.threads.let_go()
    await wait_all_tasks_blocked()
    await handle.release()
    assert world.log().values[-2:] == [b"first", b"second"]
    assert world.accumulators.context.memory.unfinished_bytes == 0


@pytest.mark.parametrize("framing", [Lines, JsonLines])
async def test_a_file_of_lines_can_be_set_to_the_length_that_was_written(
    appends: MakeAppends, framing: Callable[[], Lines]
) -> None:
    world = appends()
    handle = AppendHandle(world.target(), os.O_WRONLY, framing())
    await write(handle, b'{"value":"a"}\n', b'{"value":"b')
    for size in (0, 25):
        handle.resize(size)
    for size in (1, 24, 26):
        with pytest.raises(OSError, match="Invalid argument"):
            handle.resize(size)
    await write(handle, b'"}\n')
    handle.resize(28)
    await handle.release()
    assert len(world.log().values) == 2


async def raw(world: Appends, data: bytes) -> AppendHandle:
    handle = AppendHandle(world.target(), os.O_WRONLY, Whole())
    await write(handle, data)
    return handle


async def test_an_open_waits_for_the_release_of_a_file_that_may_be_closed(
    appends: MakeAppends, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    world = appends()
    handle, partitions = opened(world), world.target().partitions
    await write(handle, b"unfinished")
    await handle.flush()
    is_open = trio.Event()

    async def open_another() -> None:
        await world.accumulators.context.files.wait_before_open(partitions)
        is_open.set()

    nursery.start_soon(open_another)
    await trio.sleep(RELEASE_S / 2)
    assert not is_open.is_set()
    await world.accumulators.context.files.wait_before_open([TopicPartition("others", 0)])
    assert trio.current_time() == RELEASE_S / 2
    closed(handle, nursery)
    await is_open.wait()
    assert trio.current_time() == RELEASE_S / 2


async def test_a_file_that_stays_open_with_an_unfinished_line_delays_one_open(
    appends: MakeAppends, autojump_clock: MockClock
) -> None:
    world = appends()
    handle, partitions = opened(world), world.target().partitions
    await write(handle, b"unfinished")
    await handle.flush()
    for _ in range(3):
        await world.accumulators.context.files.wait_before_open(partitions)
    assert trio.current_time() == RELEASE_S
    await handle.flush()
    await write(handle, b" and more")
    await world.accumulators.context.files.wait_before_open(partitions)
    assert trio.current_time() == RELEASE_S


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.expect_log("0: 1 record was not written: full$")
async def test_after_a_lost_batch_every_call_on_the_handle_reports_it(appends: MakeAppends) -> None:
    world = appends()
    handle, other = opened(world), opened(world, number=1)
    await write(handle, b"lost\n")
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    assert await code_of(handle.flush()) == errno.ENOSPC
    world.log().append_failure = None
    for call in (handle.write(b"more\n"), handle.flush(), handle.fsync(), handle.write(b"more\n")):
        assert await code_of(call) == errno.ENOSPC
    assert await code_of(other.write(b"fine\n")) is None
    await handle.release()
    assert world.log().values == []


@pytest.mark.expect_log("not written")
async def test_a_new_handle_begins_afresh(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world)
    await write(handle, b"lost\n")
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    assert await code_of(handle.flush()) == errno.ENOSPC
    world.log().append_failure = None
    late = opened(world)
    await write(late, b"kept\n")
    assert await code_of(late.flush()) is None
    assert world.log().values == [b"kept"]


@pytest.mark.expect_log("not written")
async def test_an_unfinished_line_does_not_follow_a_lost_batch(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world)
    await write(handle, b"lost\nunfinished")
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    assert await code_of(handle.flush()) == errno.ENOSPC
    world.log().append_failure = None
    await handle.release()
    assert world.log().values == []


async def test_a_full_disk_is_reported_by_write(appends: MakeAppends, monkeypatch: pytest.MonkeyPatch) -> None:
    world = appends()
    handle = opened(world)

    def full(size: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(world.accumulators.context.space, "check", full)
        assert await code_of(handle.write(b"line\n")) == errno.ENOSPC
    assert await handle.write(b"line\n") == 5


@pytest.mark.expect_log("sync failed")
async def test_a_failed_sync_is_reported_by_every_call(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world)
    await write(handle, b"line\n")
    world.log().flush_failure = OSError(errno.EIO, "disk")
    for call in (handle.fsync(), handle.write(b"more\n"), handle.flush(), handle.fsync()):
        assert await code_of(call) == errno.EIO


@pytest.mark.expect_log("an unfinished line of 3 bytes is lost: .*shutdown")
async def test_an_unfinished_line_at_the_end_of_the_mount_is_dropped_and_logged(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world)
    await write(handle, b"whole\nhal")
    world.accumulators.context.memory.close()
    await handle.release()
    assert world.log().values == [b"whole"]


async def test_after_umount_unfinished_lines_are_records(appends: MakeAppends) -> None:
    world = appends()
    for number in range(3):
        await write(opened(world, number=number), b"unfinished")
    await world.accumulators.release_all()
    assert [world.log(number).values for number in range(3)] == [[b"unfinished"]] * 3


# --- durability ------------------------------------------------------------------------------------------------------


async def test_flush_has_the_complete_lines_in_the_file(appends: MakeAppends) -> None:
    world = appends(linger_ms=60_000)
    handle = opened(world)
    await write(handle, b"one\n")
    assert world.log().values == []
    await handle.flush()
    assert (world.log().values, world.log().synced) == ([b"one"], 0)


async def test_flush_of_a_handle_that_wrote_nothing_leaves_the_batch_of_others_open(appends: MakeAppends) -> None:
    world = appends(linger_ms=60_000)
    writer, idle = opened(world), opened(world)
    await write(writer, b"one\n")
    await idle.flush()
    assert world.log().values == []


async def test_fsync_has_them_on_disk(appends: MakeAppends) -> None:
    world = appends(linger_ms=60_000, flush_ms=None)
    handle = opened(world)
    await write(handle, b"one\n")
    await handle.fsync()
    assert world.log().synced == 1


async def test_fsync_covers_what_other_handles_wrote(appends: MakeAppends) -> None:
    world = appends(linger_ms=60_000, flush_ms=None)
    await write(opened(world), b"one\n")
    await opened(world).fsync()
    assert world.log().synced == 1


@pytest.mark.parametrize(("flag", "synced"), [(os.O_SYNC, 1), (os.O_DSYNC, 1), (0, 0)], ids=["O_SYNC", "O_DSYNC", "0"])
async def test_a_synchronous_write_returns_when_it_is_on_disk(appends: MakeAppends, flag: int, synced: int) -> None:
    world = appends(flush_ms=None)
    await opened(world, os.O_WRONLY | flag).write(b"one\n")
    assert world.log().synced == synced


# --- reading back ----------------------------------------------------------------------------------------------------


async def test_a_handle_for_both_returns_the_offsets_of_its_records(
    appends: MakeAppends, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = appends()
    monkeypatch.setattr("time.time_ns", lambda: 1_795_253_676_123_456_789)
    await write(opened(world), b"another's\n")
    handle = opened(world, os.O_RDWR)
    await write(handle, b"hi\nthere\n")
    assert await handle.read(0, 4096) == b"1 1795253676123\n2 1795253676123\n"
    assert await handle.read(0, 4096) == b""
    await write(handle, b"again\nunfinished")
    assert await handle.read(0, 4096) == b"3 1795253676123\n"


async def test_the_reported_offsets_are_a_stream_that_may_be_read_in_any_pieces(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world, os.O_RDWR)
    await write(handle, b"x\n" * 1000)
    pieces = []
    for size in [1, 2, 3, 4096, 7] + [1000] * 100:
        piece = await handle.read(0, size)
        assert len(piece) <= size
        pieces.append(piece)
    reported = b"".join(pieces).decode().splitlines()
    assert [int(line.split()[0]) for line in reported] == list(range(1000))


async def test_a_handle_that_only_writes_or_only_reads_sees_the_end_of_the_file(appends: MakeAppends) -> None:
    world = appends()
    writer, reader = opened(world), opened(world, os.O_RDONLY)
    await write(writer, b"one\n")
    assert (await writer.read(0, 100), await reader.read(0, 100)) == (b"", b"")


async def test_unread_offsets_are_kept_within_bounds(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world, os.O_RDWR)
    for number in range(RANGES_MAX + 10):
        handle.acknowledged(2 * number, 1, number, partition=0)
    assert (await handle.read(0, 3)).startswith(b"20 ")


@pytest.mark.expect_log("not written")
async def test_reading_after_a_lost_batch_fails(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world, os.O_RDWR)
    await write(handle, b"lost\n")
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    assert await code_of(handle.read(0, 100)) == errno.ENOSPC
