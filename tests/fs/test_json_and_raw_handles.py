"""Open `append.ndjson` and `append.raw`: what becomes a record, what is refused and how, wherever writes are cut."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from typing import cast

import pytest
import trio
from fixtures.mounts.fake_appends import Appends, FakeTarget, MakeAppends
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from offsetfs.fs.appends.framing import JSON_BYTES_A_BYTE, JSON_BYTES_MORE, JsonLines, Lines, Whole
from offsetfs.fs.appends.handles import AppendHandle
from offsetfs.fs.appends.json_batches import Taken
from offsetfs.fs.appends.target import AppendTarget
from offsetfs.storage.records.format.batch_builder import BatchBuilder, value_bytes_max

pytestmark = pytest.mark.unit


KIB = 1 << 10
LIMIT = {"max.message.bytes": "1000"}


def opened(
    world: Appends,
    flags: int = os.O_WRONLY,
    framing: type[Lines] = JsonLines,
    on_loss: Callable[[OSError], object] = lambda error: None,
) -> AppendHandle:
    return AppendHandle(world.target(), flags, framing(), "orders-0/append.ndjson", on_loss)


def line(value: str, **more: object) -> bytes:
    return json.dumps({"value": value, **more}).encode() + b"\n"


async def answers(handle: AppendHandle, *pieces: bytes) -> list[int]:
    """Return what each write says: the bytes taken, or the errno as a negative number."""
    said = []
    for piece in pieces:
        try:
            said.append(await handle.write(piece))
        except OSError as error:
            said.append(-(error.errno or 0))
    return said


A, B, C = line("a"), line("b"), line("c")
BAD = b'{"value":1}\n'


@pytest.mark.parametrize(
    ("pieces", "said", "records"),
    [
        pytest.param([A + B], [len(A + B)], [b"a", b"b"], id="lines"),
        pytest.param([A[:5], A[5:] + B[:3], B[3:]], [5, len(A) - 2, len(B) - 3], [b"a", b"b"], id="cut anywhere"),
        pytest.param([b"\n \n\r\n" + A], [5 + len(A)], [b"a"], id="blank lines"),
        pytest.param([b" ", b"\n"], [1, 1], [], id="a blank line in two writes"),
        pytest.param([A + BAD + B, BAD + B, B], [len(A), -errno.EINVAL, len(B)], [b"a", b"b"], id="a wrong line"),
        pytest.param([BAD[:4], BAD[4:], B], [4, -errno.EINVAL, len(B)], [b"b"], id="a wrong line in two writes"),
        pytest.param([BAD + B[:4], B[4:], B], [-errno.EINVAL] * 3, [], id="cut behind a wrong line"),
        pytest.param([A[:4], A[4:] + BAD, BAD, B], [4, len(A) - 4, -errno.EINVAL, len(B)], [b"a", b"b"], id="later"),
    ],
)
async def test_each_line_of_json_is_a_record_until_one_is_wrong(
    appends: MakeAppends, pieces: list[bytes], said: list[int], records: list[bytes]
) -> None:
    world = appends()
    handle = opened(world)
    assert await answers(handle, *pieces) == said
    await handle.flush()
    assert world.log().values == records


async def test_a_wrong_line_is_named_by_its_number_over_all_writes(appends: MakeAppends) -> None:
    heard: list[OSError] = []
    handle = opened(appends(), on_loss=heard.append)
    await answers(handle, A + B[:3], B[3:] + b"\n", BAD, C + BAD)
    assert [str(error.strerror).split(":")[0] for error in heard] == ["line 6, byte 10"]
    with pytest.raises(OSError, match=r"line 6, byte 10: a value is a string or null; .*; fix this line") as raised:
        await handle.write(BAD)
    assert raised.value.filename == "orders-0/append.ndjson"


@given(st.lists(st.text(max_size=20)), st.lists(st.integers(0, 600)))
def test_where_writes_are_cut_means_nothing(values: list[str], cuts: list[int]) -> None:
    data = b"".join(map(line, values))
    ends = sorted(min(cut, len(data)) for cut in cuts)
    builder = BatchBuilder(1 << 20)

    class Target(FakeTarget):
        def split_json(self, lines: bytes, start: int, end: int, timestamp: int, writer: AppendHandle) -> Taken:
            assert lines[end - 1 : end] == b"\n"
            builder.split_json(lines, start, end, timestamp)
            return Taken(end)

    async def run() -> None:
        handle = AppendHandle(cast(AppendTarget, Target()), os.O_WRONLY, JsonLines())
        for start, end in zip([0, *ends], [*ends, len(data)], strict=True):
            assert await handle.write(data[start:end]) == end - start
        await handle.release()

    trio.run(run)
    whole = BatchBuilder(1 << 20)
    whole.split_json(data, 0, len(data), 0)
    assert (builder.count, builder.values_bytes) == (whole.count, whole.values_bytes)


async def test_the_limit_counts_the_record_and_not_the_length_of_its_line(
    appends: MakeAppends,
) -> None:
    world = appends(topic=LIMIT)
    handle = opened(world)
    escaped = b'{"value":"' + b"\\u0000" * 900 + b'"}\n'
    assert await answers(handle, escaped, line("x" * 1000), A) == [len(escaped), -errno.EMSGSIZE, -errno.EMSGSIZE]
    await handle.flush()
    assert world.log().values == [bytes(900)]


async def test_an_unfinished_line_has_a_limit_that_no_record_of_a_view_reaches(appends: MakeAppends) -> None:
    world = appends(topic=LIMIT)
    headers = b",".join([b'{"key":"","value":null}'] * 440)
    data = b'{"headers":[' + headers + b"]}\n"
    assert len(data) < JSON_BYTES_A_BYTE * 1000
    pieces = [data[start : start + 100] for start in range(0, len(data), 100)]
    handle = opened(world)
    assert await answers(handle, *pieces) == [len(piece) for piece in pieces]
    await handle.flush()
    assert world.log().next_offset == 1
    endless = b"{" + b" " * (JSON_BYTES_A_BYTE * 1000 + JSON_BYTES_MORE)
    assert await answers(handle, endless, b"}\n") == [-errno.EMSGSIZE] * 2


async def test_without_space_a_nonblocking_write_takes_whole_lines_and_then_nothing(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    handle = opened(world, os.O_WRONLY | os.O_NONBLOCK)
    world.threads.hold()
    data = b"".join(line(f"{number:060}") for number in range(100))
    size = len(data) // 100
    taken, refused = await answers(handle, data, data)
    assert 0 < taken < len(data) and taken % size == 0 and refused == -errno.EAGAIN
    world.threads.let_go()
    await handle.flush()
    assert len(world.log().values) == taken // size


@pytest.mark.expect_log("an unfinished line of 5 bytes is lost")
async def test_an_unfinished_line_of_invalid_json_is_lost_and_reported(appends: MakeAppends) -> None:
    heard: list[OSError] = []
    world = appends()
    handle = opened(world, on_loss=heard.append)
    await answers(handle, A + b'{"val')
    await handle.release()
    assert world.log().values == [b"a"] and [error.errno for error in heard] == [errno.EINVAL]


async def test_the_timestamp_of_each_record_is_returned(appends: MakeAppends) -> None:
    handle = opened(appends(), os.O_RDWR)
    await answers(handle, line("a", timestamp=7) + line("b", timestamp=3) + b"\n" + line("c", timestamp=-1))
    assert await handle.read(0, 100) == b"0 7\n1 3\n2 -1\n"


# --- append.raw ------------------------------------------------------------------------------------------------------


async def test_all_that_is_written_is_one_record_wherever_it_is_written(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world, framing=Whole)
    for position, piece in ((0, b"abc"), (6, b"ghi"), (1, b"B")):
        handle.place(position)
        assert await handle.write(piece) == len(piece)
    await handle.flush()
    assert world.log().values == []
    handle.resize(8)
    await handle.release()
    assert world.log().values == [b"aBc\0\0\0gh"]


async def test_opened_for_appending_places_mean_nothing(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world, os.O_WRONLY | os.O_APPEND, Whole)
    for piece in (b"abc", b"def"):
        handle.place(0)
        await handle.write(piece)
    await handle.release()
    assert world.log().values == [b"abcdef"]


async def test_fsync_ends_the_record_and_what_lies_before_is_closed(appends: MakeAppends) -> None:
    world = appends(linger_ms=60_000, flush_ms=None)
    handle = opened(world, framing=Whole)
    handle.place(0)
    await handle.write(b"one")
    await handle.fsync()
    assert (world.log().values, world.log().synced) == ([b"one"], 1)
    handle.place(1)
    assert await answers(handle, b"x") == [-errno.EINVAL]
    handle.place(3)
    assert await answers(handle, b"two") == [3]
    await handle.fsync()
    await handle.fsync()
    await handle.release()
    assert world.log().values == [b"one", b"two"]


async def test_the_limit_holds_for_holes_too_and_nothing_of_a_refused_record_stays(appends: MakeAppends) -> None:
    world = appends(topic=LIMIT)
    longest = value_bytes_max(1000)
    handle, far = opened(world, framing=Whole), opened(world, framing=Whole)
    handle.place(0)
    assert await answers(handle, b"x" * longest) == [longest]
    handle.place(longest)
    assert await answers(handle, b"y", b"z") == [-errno.EMSGSIZE] * 2
    far.place(1 << 40)
    assert await answers(far, b"x") == [-errno.EMSGSIZE]
    for each in (handle, far):
        await each.release()
    assert world.log().values == []


async def test_a_raw_record_waits_for_space_when_it_ends(appends: MakeAppends, nursery: trio.Nursery) -> None:
    world = appends(batch_bytes=KIB)
    lines = opened(world, os.O_WRONLY | os.O_NONBLOCK)
    world.threads.hold()
    await answers(lines, *[line(f"{number:060}") for number in range(100)])
    late = opened(world, os.O_WRONLY | os.O_NONBLOCK, Whole)
    assert await answers(late, b"late" * 1000) == [4000]
    nursery.start_soon(late.release)
    await wait_all_tasks_blocked()
    world.threads.let_go()
    await wait_all_tasks_blocked()
    assert world.log().values[-1] == b"late" * 1000


async def test_of_lines_nothing_can_be_cut(appends: MakeAppends) -> None:
    handle = opened(appends())
    handle.resize(0)
    with pytest.raises(OSError):
        handle.resize(5)
