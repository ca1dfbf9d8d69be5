"""Reads lines of files into staged batches: one task of an import.

A task has a range of bytes of a file and reads the lines that begin in it. The engine's codecs encode them from the
block into the open batch, without a Python object per line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from offsetfs.pipeline.staging import Staged, StagingFile, Target, TopicShape
from offsetfs.storage import TopicPartition, files, record_size, spread_json_lines
from offsetfs.storage.errors import RecordTooLarge

BLOCK_BYTES = 4 << 20
LINE_BYTES_MAX = 64 << 20
"""A line above it is refused before it is read whole."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes `[start, end)` of a file."""

    path: str
    start: int
    end: int


@dataclass(slots=True)
class Found:
    """The result of a task."""

    staged: Staged
    rejected: int
    rejects: list[tuple[int, str]]
    """The first of them: number of the line in its file, and the fault."""


def stage_lines(
    wanted: FileRange,
    target: Target,
    split: int,
    attempt: int,
    *,
    is_json: bool,
    rejects_max: int,
    values_as_text: bool = False,
) -> Found:
    """Stage the lines that begin in the range; on disk after return. More than `rejects_max` faults are only counted.

    `values_as_text` concerns lines of JSON: a `value` that is not a string is taken as its text.

    Raises `RecordTooLarge` and OSError; then no file is left behind.
    """
    assert target.topic is not None
    staging = StagingFile(target, split, attempt)
    shape = target.topics[target.topic]
    take: TakeLines = (
        _Json(staging, shape, target.topic, values_as_text).take
        if is_json
        else taking_texts(staging, shape, target.topic, split)
    )
    rejects: list[tuple[int, str]] = []
    rejected = 0
    try:
        with files.open_file(wanted.path) as file:
            for block, block_position in _blocks(file, wanted):
                position = 0
                while position < len(block):
                    position, fault = take(block, position)
                    if fault is None:
                        continue
                    rejected += 1
                    if len(rejects) <= rejects_max:
                        rejects.append((_line_number(file, block_position + position), fault))
                    position = block.index(b"\n", position) + 1
        return Found(staging.finish(), rejected, rejects)
    except BaseException:
        staging.abandon()
        raise


def _blocks(file: files.File, wanted: FileRange) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines, each with its newline, and the position of the first; only lines that begin in the range."""
    size, position = file.size(), wanted.start
    rest = b""
    if position:  # the line that reaches into the range belongs to the range that has its beginning
        position -= 1
        position = _line_end(file, position, size)
    read = position
    while position < min(wanted.end, size):
        block = rest + bytes(file.read(read, min(BLOCK_BYTES, size - read)))
        read = position + len(block)
        cut = len(block) if read >= size else block.rfind(b"\n") + 1
        if read > wanted.end:  # the last line is the one that reaches over the end
            last = block.find(b"\n", max(wanted.end - position - 1, 0))
            cut = len(block) if last < 0 and read >= size else last + 1
        if cut <= 0:
            if len(block) > LINE_BYTES_MAX:
                raise RecordTooLarge(f"a line of more than {LINE_BYTES_MAX} bytes", path=file.path, position=position)
            rest = block
            continue
        whole = block[:cut]
        yield (whole if whole.endswith(b"\n") else whole + b"\n"), position
        rest, position = block[cut:], position + cut


def _line_end(file: files.File, position: int, size: int) -> int:
    """Return the position behind the first newline at or after `position`."""
    while position < size:
        block = bytes(file.read(position, min(BLOCK_BYTES, size - position)))
        newline = block.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(block)
    return size


def _line_number(file: files.File, position: int) -> int:
    number, block_position = 1, 0
    while block_position < position:
        block = bytes(file.read(block_position, min(BLOCK_BYTES, position - block_position)))
        number += block.count(b"\n")
        block_position += len(block)
    return number


TakeLines = Callable[[bytes, int], tuple[int, str | None]]
"""Encodes lines of a block from a position on; returns the position of the first line that was refused, and its fault.
"""


@dataclass(slots=True)
class _Text:
    """Encodes lines as values: one batch to a partition, the next batch to the next partition."""

    staging: StagingFile
    shape: TopicShape
    topic: str
    turn: int

    def take(self, block: bytes, position: int) -> tuple[int, str | None]:
        """Encode lines as far as the open batch has space; return the position of the next one, and its fault."""
        if self.shape.needs_key:
            return position, "a compacted topic takes no record without a key"
        numbers = self.shape.partitions
        partition = TopicPartition(self.topic, numbers[self.turn % len(numbers)])
        builder = self.staging.builder(partition, self.shape)
        behind = builder.split(block, position, len(block), _now_ms())
        if behind == position:
            line = memoryview(block)[position : block.index(b"\n", position)]
            self.staging.next_batch(partition, self.shape, record_size(None, line))
            return behind, None
        if behind < len(block):
            self.staging.flush(partition)
            self.turn += 1
        return behind, None


@dataclass(slots=True)
class _Json:
    """Encodes lines of JSON, each into the partition that it names, else that of its key.

    If a partition of the topic below the highest number is missing, `partition` is ignored, because the builders are
    numbered without gaps.
    """

    staging: StagingFile
    shape: TopicShape
    topic: str
    values_as_text: bool
    turn: int = field(default=0)

    def take(self, block: bytes, position: int) -> tuple[int, str | None]:
        """Encode lines until one is invalid or has no space; return its position, and its fault."""
        numbers = self.shape.partitions
        partitions = [TopicPartition(self.topic, number) for number in numbers]
        builders = [self.staging.builder(partition, self.shape) for partition in partitions]
        spread = spread_json_lines(
            builders,
            block,
            position,
            len(block),
            _now_ms(),
            keyless=self.turn % len(partitions),
            needs_key=self.shape.needs_key,
            honors_partition=numbers == tuple(range(len(numbers))),
            values_as_text=self.values_as_text,
        )
        if spread.fault is not None:
            return spread.start, spread.fault.reason
        if spread.partition >= 0:
            self.staging.next_batch(partitions[spread.partition], self.shape, spread.record_bytes)
            self.turn += 1
        return spread.start, None


def taking_texts(staging: StagingFile, shape: TopicShape, topic: str, turn: int) -> TakeLines:
    """Return what encodes lines as values. `turn` selects the partition of the first batch."""
    return _Text(staging, shape, topic, turn).take


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
