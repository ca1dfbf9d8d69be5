"""A JSON document in object storage that is replaced by numbered copies.

    <prefix>/manifests/00000000000000000007.json     never changes once it is there
    <prefix>/manifest.json                           a copy of the newest, for readers: one request

    offsetfs-archive 1 <SHA-256 of the following lines, hexadecimal>\\n
    <JSON>\\n

A new number is created only if it does not exist, so that of two writers that read number 6, one writes number 7, and
the other one reads it before it writes number 8. The copy is written afterwards. A reader of the copy sees the newest
number, or for a moment an earlier one: after its own write a writer looks for a later number, and copies that one too.

An expiry deletes numbers from the lowest on, and never the newest one, so that those that exist have no gaps. A writer
that was stopped for long may create a number among those that were deleted meanwhile: the number before it is missing
then, and the writer takes its document back.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import time
from dataclasses import dataclass
from typing import Any

from offsetfs.archive import urls
from offsetfs.archive.object_store import ObjectStore

VERSION = 1
COPY = "manifest.json"
FOLDER = "manifests"
BYTES_MAX = 1 << 28
"""The largest document: a state with 50,000 segments, of 5 KiB for a segment of 1 GiB. A larger one is not written, and
of one that is there no more is read. Protects the memory."""

_HEAD = re.compile(rb"offsetfs-archive (?P<version>[0-9]{1,9}) (?P<sha256>[0-9a-f]{64})\n")
_HEAD_BYTES_MAX = 128
_LONG_S = 3600.0
"""A writer that needed longer for a few requests was stopped meanwhile, such as with its machine."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A document with its number, from 1 on."""

    number: int
    content: dict[str, Any]


def encoded(content: dict[str, Any]) -> bytes:
    """Return a document as the bytes of its object."""
    body = json.dumps(content, separators=(",", ":"), sort_keys=True).encode() + b"\n"
    return b"offsetfs-archive %d %s\n" % (VERSION, hashlib.sha256(body).hexdigest().encode()) + body


def decoded(data: bytes, url: str) -> dict[str, Any]:
    """Return the document of an object. OSError: EINVAL for none, EPROTO for a newer version, EIO for damage."""
    head = _HEAD.match(data[:_HEAD_BYTES_MAX])
    if head is None:
        raise OSError(errno.EINVAL, "is not a document of an archive of offsetfs", url)
    if int(head["version"]) > VERSION:
        reason = f"has format {int(head['version'])}, this program reads up to {VERSION}; install a newer offsetfs"
        raise OSError(errno.EPROTO, reason, url)
    body = data[head.end() :]
    if hashlib.sha256(body).hexdigest().encode() != head["sha256"]:
        raise OSError(errno.EIO, "is damaged: its bytes do not match its SHA-256", url)
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise OSError(errno.EINVAL, "is not a document of an archive of offsetfs", url)
    return content


def bounded(store: ObjectStore, key: str) -> bytes | None:
    """Return the object of a document; None if there is none. OSError EFBIG if it is larger than `BYTES_MAX`."""
    try:
        return store.read_if_present(key, BYTES_MAX)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        reason = f"{error.strerror}: it is not a document of an archive; restore the object, or delete it"
        raise OSError(errno.EFBIG, reason, error.filename) from error


def document(store: ObjectStore, key: str) -> dict[str, Any] | None:
    """Return the document of an object; None if there is none. OSError as of `decoded`, EFBIG, and as of the store.

    Bytes that do not match are read once more: a bit may have changed on the way.
    """
    url = urls.join(store.url, key)
    data = bounded(store, key)
    if data is None:
        return None
    try:
        return decoded(data, url)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    return decoded(bounded(store, key) or b"", url)


class NumberedDocuments:
    """The numbered copies of the document below a prefix, such as those of a partition."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix.rstrip("/")
        self._copied: int | None = None  # the number of the copy, if it was read

    def _key(self, number: int) -> str:
        return urls.join(self.prefix, FOLDER, f"{number:020d}.json").lstrip("/")

    @property
    def _copy_key(self) -> str:
        return urls.join(self.prefix, COPY).lstrip("/")

    def copy(self) -> Numbered | None:
        """Return the document that readers see; None if there is none. One request."""
        return self._read(self._copy_key)

    def newest(self, known: int | None = None) -> Numbered | None:
        """Return the document with the highest number; None if there is none. For writers: two requests or more.

        `known`: a number that exists, from which the search begins.
        """
        newest = None
        try:
            newest = self.copy() if known is None else self.at(known)
        except OSError as error:
            # The copy is damaged, or belongs to something else: the numbered ones decide.
            if error.errno != errno.EIO:
                raise
        if known is None:
            self._copied = 0 if newest is None else newest.number
        if newest is None:
            numbers = self.numbers()
            return self.at(numbers[-1]) if numbers else None
        while following := self.at(newest.number + 1):
            newest = following
        return newest

    def numbers(self) -> list[int]:
        """Return the numbers that exist, rising. A request for each 1,000."""
        return list(self.listed())

    def listed(self) -> dict[int, int | None]:
        """Return the numbers that exist, rising, with the time when each was written, in ms; None if not known."""
        objects = self.store.objects(urls.join(self.prefix, FOLDER).lstrip("/"))
        named = ((stored.key.rsplit("/", 1)[-1], stored.modified_ms) for stored in objects)
        return {int(name[:20]): time_ms for name, time_ms in named if re.fullmatch(r"[0-9]{20}\.json", name)}

    def at(self, number: int) -> Numbered | None:
        """Return the document with a number; None if there is none. One request."""
        numbered = self._read(self._key(number))
        if numbered is not None and numbered.number != number:
            reason = f"is a copy of number {numbered.number}; delete it"
            raise OSError(errno.EINVAL, reason, urls.join(self.store.url, self._key(number)))
        return numbered

    def publish(self, number: int, content: dict[str, Any]) -> bool:
        """Create the document with a number; durable and visible on return. False if it is not the newest one.

        Then another writer has created it, or a later one: an expiry may have deleted the numbers in between. OSError
        EFBIG, and nothing is written, for a document of more than `BYTES_MAX`; OSError as of the store, when the
        document may be there, and its copy may be that of an earlier number.
        """
        begun_s = running_s()
        data = encoded({**content, "number": number})
        if len(data) > BYTES_MAX:
            reason = (
                f"needs a state of {len(data)} bytes, more than {BYTES_MAX}: it has too many segments; raise"
                " segment.bytes of the topic, and archive with --expire, or into another URL"
            )
            raise OSError(errno.EFBIG, reason, urls.join(self.store.url, self.prefix))
        if not self._is_created(number, data):
            return False
        if not self._is_next(number):
            self.delete(number)
            return False
        self.store.put(self._copy_key, data)
        # Another writer may have copied a higher number between our creation and our copy.
        following = number + 1
        while (later := bounded(self.store, self._key(following))) is not None:
            self.store.put(self._copy_key, later)
            following += 1
        if running_s() - begun_s > _LONG_S:
            last = self.numbers()[-1]
            if (newest := bounded(self.store, self._key(last))) is not None:
                self.store.put(self._copy_key, newest)
            return last == number
        return following == number + 1

    def _is_created(self, number: int, data: bytes) -> bool:
        """Create the document; False if another writer has created one with the number.

        After a timeout the answer is unknown. A library that repeats a request whose answer was lost gets the answer
        that the object exists. What is there decides.
        """
        key = self._key(number)
        try:
            if self.store.create(key, data):
                return True
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            try:
                stored = bounded(self.store, key)
            except OSError:
                raise error from None
            if stored is None:
                raise
            return stored == data
        return bounded(self.store, key) == data

    def _is_next(self, number: int) -> bool:
        """Whether a document that was created continues those that exist."""
        if number > 1:
            return self.store.exists(self._key(number - 1))
        numbers = self.numbers()
        return numbers == list(range(1, len(numbers) + 1))

    def delete(self, number: int) -> None:
        """Delete a document that is not the newest. OSError if the store refuses it."""
        self.store.delete([self._key(number)])

    def repair_copy(self, newest: Numbered) -> None:
        """Write the copy again if `newest` has found an earlier number in it: a writer was killed before its copy."""
        if self._copied is not None and self._copied < newest.number:
            self.store.put(self._copy_key, encoded(newest.content))
            self._copied = newest.number

    def _read(self, key: str) -> Numbered | None:
        content = document(self.store, key)
        if content is None:
            return None
        number = content.get("number")
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise OSError(errno.EINVAL, "is a document without a number", urls.join(self.store.url, key))
        return Numbered(number, content)


def running_s() -> float:
    """Return a time in seconds that continues while the machine sleeps, and that cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
