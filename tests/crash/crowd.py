"""What each of a crowd does in a mount, as a program of its own: writers that number their lines, readers that look.

    crowd.py ROLE NAME MOUNT SCRATCH

Everybody works until the file `stop` is in SCRATCH. What a writer says of itself is then in SCRATCH/NAME: how many
lines it wrote, and where the log says that they are. A reader leaves what it saw there.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

TOPIC = "orders-0"
KEYED = "users-0"
KEYS = 7
LINES_AT_ONCE = 100


def main(role: str, name: str, mount: str, scratch: str) -> None:
    os.chdir(mount)
    ROLES[role](name, Path(scratch))


def numbers(scratch: Path) -> Iterator[int]:
    """Count until it is time to stop."""
    stop = scratch / "stop"
    return itertools.takewhile(lambda _: not stop.exists(), itertools.count())


def line(name: str, number: int) -> bytes:
    return f"{name}:{number}\n".encode()


def lines(name: str, start: int, count: int = LINES_AT_ONCE) -> bytes:
    return b"".join(line(name, number) for number in range(start, start + count))


def say(name: str, scratch: Path, count: int, places: dict[int, int] | None = None) -> None:
    (scratch / name).write_text(json.dumps({"count": count, "places": list((places or {}).items())}))


# --- writers ---------------------------------------------------------------------------------------------------------


def write_and_close(name: str, scratch: Path) -> None:
    """Open, write many lines at once, close."""
    count = 0
    for _ in numbers(scratch):
        with open(f"{TOPIC}/append", "ab", buffering=0) as file:
            _write_all(file.fileno(), lines(name, count))
        count += LINES_AT_ONCE
    say(name, scratch, count)


def write_and_sync(name: str, scratch: Path) -> None:
    """A line at a time, each on disk before the next."""
    count = 0
    with open(f"{TOPIC}/append", "ab", buffering=0) as file:
        for number in numbers(scratch):
            file.write(line(name, number))
            os.fsync(file.fileno())
            count = number + 1
    say(name, scratch, count)


def write_and_ask(name: str, scratch: Path) -> None:
    """Write, and read back where each line came to lie."""
    places: dict[int, int] = {}
    count = 0
    file = os.open(f"{TOPIC}/append", os.O_RDWR)
    for _ in numbers(scratch):
        _write_all(file, lines(name, count, 10))
        reported = b""
        while reported.count(b"\n") < 10:
            reported += os.read(file, 1 << 16)
        offsets = [int(each.split()[0]) for each in reported.splitlines()]
        assert offsets == sorted(set(offsets)) and len(offsets) == 10, reported
        places.update(zip(range(count, count + 10), offsets, strict=True))
        count += 10
    os.close(file)
    say(name, scratch, count, places)


def write_in_pieces(name: str, scratch: Path) -> None:
    """Lines cut anywhere, as pipes deliver them."""
    chance = random.Random(name)
    count, rest = 0, b""
    file = os.open(f"{TOPIC}/append", os.O_WRONLY)
    for _ in numbers(scratch):
        rest += lines(name, count)
        count += LINES_AT_ONCE
        while len(rest) > 60:
            piece, rest = rest[: (size := chance.randrange(1, 400))], rest[size:]
            _write_all(file, piece)
    _write_all(file, rest)
    os.close(file)
    say(name, scratch, count)


def write_unfinished(name: str, scratch: Path) -> None:
    """Open, write a record, close, and so on: without its end, as a whole file, and as a line."""
    count = 0
    for number in numbers(scratch):
        file, text = UNFINISHED[number % len(UNFINISHED)]
        with open(f"{TOPIC}/{file}", "ab", buffering=0) as stream:
            stream.write(text % f"{name}:{number}".encode())
        count = number + 1
    with open(f"{TOPIC}/append", "ab", buffering=0) as stream:
        os.fsync(stream.fileno())  # covers the files closed before
    say(name, scratch, count)


UNFINISHED = (
    ("append", b"%s"),
    ("append.raw", b"%s"),
    ("append", b"%s\n"),
    ("append.ndjson", b'{"value":"%s"}'),
    ("append.raw", b"%s"),
    ("append.ndjson", b'{"value":"%s"}\n'),
)
"""Files, and what is written to them for one record."""


def write_keyed(name: str, scratch: Path) -> None:
    """Lines of JSON, to few keys again and again: what compaction works on."""
    count = 0
    for _ in numbers(scratch):
        with open(f"{KEYED}/append.ndjson", "ab", buffering=0) as file:
            records = [{"key": f"{name}-{n % KEYS}", "value": f"{name}:{n}"} for n in range(count, count + 50)]
            _write_all(file.fileno(), b"".join(json.dumps(record).encode() + b"\n" for record in records))
        count += 50
    say(name, scratch, count)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


# --- readers ---------------------------------------------------------------------------------------------------------


def look_anywhere(name: str, scratch: Path) -> None:
    """Read records by offset, by range, and at the ends; leave `offset value` lines of all that was seen."""
    chance = random.Random(name)
    with open(scratch / name, "w") as seen:
        for _ in numbers(scratch):
            start, end = (int(Path(TOPIC, each).read_text()) for each in ("start", "next"))
            if start == end:
                continue
            offset = chance.randrange(start, end)
            for path, first in ((f"{offset}", offset), (f"range/{offset}..{offset + 20}", offset), ("latest", None)):
                _look(Path(TOPIC, path), first, end, seen.write)


def _look(path: Path, first: int | None, end: int, tell: Callable[[str], object]) -> None:
    """Tell what stands there. What retention has taken since `start` was read is not there, and nothing else."""
    try:
        if first is None:
            first = int(os.readlink(path))
            path = path.with_name(str(first))
        values = path.read_bytes().decode().splitlines()
    except (FileNotFoundError, OSError) as error:
        assert int(Path(TOPIC, "start").read_text()) > (first or 0), f"{path}: {error}"
        return
    wanted = 1 if path.name.isdigit() else min(20, end - first)
    assert len(values) >= wanted or int(Path(TOPIC, "start").read_text()) > first, f"{path}: {values}"
    if len(values) >= wanted:
        tell("".join(f"{first + place} {value}\n" for place, value in enumerate(values)))


ROLES: dict[str, Callable[[str, Path], None]] = {
    "closing": write_and_close,
    "syncing": write_and_sync,
    "asking": write_and_ask,
    "pieces": write_in_pieces,
    "unfinished": write_unfinished,
    "keyed": write_keyed,
    "looking": look_anywhere,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
