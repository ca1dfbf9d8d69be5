"""Readers of the requests of a version of an API, and writers of the responses with their size and header."""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from offsetfs.common.threads import in_thread
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.messages import RequestHeader
from offsetfs.kafka.protocol.schemas import schema
from offsetfs.storage import BatchRange

INLINE_DECODE_BYTES_MAX = 128 << 10
"""Larger requests are decoded in a thread: some ten milliseconds for many small elements."""

INLINE_DECODE_ELEMENTS_MAX = 2000
"""Requests with records and no more partitions are decoded on the event loop: their records are not decoded."""

_JOINED_BYTES_MAX = 1 << 20
"""A larger response is not copied to be behind its header."""


@dataclass(frozen=True, slots=True)
class Codecs:
    """The reader of the requests of a version of an API, and the writer of the responses."""

    read_header: codec.Read
    read: codec.Read
    write: codec.Write
    has_tags: bool
    """Whether the header of the response has tagged fields."""
    read_few: codec.Read | None
    """Reads a request with few elements, of any size, on the event loop; `codec.TooManyElements` for others."""
    has_ranges: bool
    """Whether the response may have ranges of files."""

    @classmethod
    def of(cls, request: str, version: int, *, has_plain_header: bool, has_records: bool, has_ranges: bool) -> Codecs:
        """Return the codecs of a version of a request, which is named. See the fields of `Api`."""
        is_flexible = version >= schema(request).layout(version).flexible
        return cls(
            codec.reader("RequestHeader", 2 if is_flexible else 1),
            codec.reader(request, version),
            codec.writer(request.replace("Request", "Response"), version),
            has_tags=is_flexible and not has_plain_header,
            read_few=codec.reader(request, version, INLINE_DECODE_ELEMENTS_MAX) if has_records else None,
            has_ranges=has_ranges,
        )

    async def decoded(self, data: memoryview) -> tuple[RequestHeader, Any]:
        header, position = self.read_header(data, 0)
        # Bytes after the request are ignored, as Kafka does: librdkafka 2.16 adds three to Metadata v13 of all topics.
        if len(data) <= INLINE_DECODE_BYTES_MAX:
            return header, self.read(data, position)[0]
        if self.read_few is not None:
            with suppress(codec.TooManyElements):
                return header, self.read_few(data, position)[0]
        request, _ = await in_thread(functools.partial(self.read, data, position))
        return header, request

    def framed(self, header: RequestHeader, response: Any) -> list[Any]:
        """Return the buffers of a response, its size included."""
        head = header.correlation_id.to_bytes(4, "big", signed=True) + (b"\0" if self.has_tags else b"")
        body = self.write(response)
        if self.has_ranges:
            return _joined(head, body)
        data = b"".join(body)  # some twenty buffers of a few bytes
        head = (len(head) + len(data)).to_bytes(4, "big") + head
        return [head + data] if len(data) <= _JOINED_BYTES_MAX else [head, data]


def _joined(head: bytes, body: list[Any]) -> list[Any]:
    """Return the buffers of a response with ranges of files; what is between two of them is one buffer."""
    buffers: list[Any] = []
    size, between = 0, [head]
    for part in body:
        if type(part) is not BatchRange:
            between.append(part)
            continue
        data = b"".join(between)
        size += len(data) + part.size
        buffers += (data, part)
        between = []
    last = b"".join(between)
    if last or not buffers:
        buffers.append(last)
    buffers[0] = (size + len(last)).to_bytes(4, "big") + buffers[0]
    return buffers


SAMPLES = 8
"""Elements that stand for all elements of a long array, in the estimate of the size of a response."""


def elements_of(message: Any) -> int:
    """Return about how many elements the arrays of a message have; of long arrays, some elements stand for all."""
    return sum(_elements_of_array(value) for value in _values(message) if type(value) is list and value)


def _elements_of_array(elements: list[Any]) -> int:
    count = len(elements)
    if not hasattr(elements[0], "__slots__"):  # numbers and texts
        return count
    step = -(-count // SAMPLES)
    samples = elements[::step]
    return count + count * sum(map(elements_of, samples)) // len(samples)


def _values(message: Any) -> list[Any]:
    return [getattr(message, name) for name in message.__slots__]
