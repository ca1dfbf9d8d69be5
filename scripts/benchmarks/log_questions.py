"""Questions to a log directory, beside the pipes of programs that answer them today.

`find` is asked for records of a topic with twelve partitions, which kcat wrote into a real broker; kcat reads it from
the broker, and grep (ripgrep, where it is installed) reads the values that were extracted before.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import mounted
from bench import Bench
from commands import OFFSETFS, UNWAITING, kcat, seconds
from measuring import Contender, Measure, Opened, Peer, Row, times_as_fast

_PARTITIONS = 12
_KEYS = 50_000
_STATES = ("new", "paid", "sent", "returned")
_REST = "the customer asked for a delivery in the afternoon, to the neighbor on the second floor; " * 4
_KEY, _TEXT, _REGEX = "customer-17", "order 1 was lost", "order [0-9]+ was (lost|stolen)"


def _line(number: int) -> str:
    lost = ", order 1 was lost" if number == 1 else ""
    state = _STATES[number % 4] if number % 1000 else "refused"
    return f'customer-{number % _KEYS}\t{{"id":{number},"state":"{state}","text":"{_REST}{lost}"}}\n'


def _lines(bench: Bench) -> Path:
    def make() -> Path:
        path = bench.new("orders")
        with path.open("w") as file:
            file.writelines(map(_line, range(bench.count)))
        return path

    return bench.once(("orders", bench.count), make)


def _topic(bench: Bench) -> str:
    def fill(name: str) -> float:
        produce = kcat("-P", bench.broker(), name, None, "-K '\t' -X partitioner=murmur2_random")
        return seconds(f'exec {produce} < "$1"', _lines(bench))

    return bench.topic("orders", fill, _PARTITIONS)


def _values(bench: Bench) -> Path:
    def make() -> Path:
        path = bench.new("values")
        seconds('cut -f 2 "$1" > "$2"', _lines(bench), path)
        return path

    return bench.once(("values", bench.count), make)


def _find(*words: str) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        command = (*OFFSETFS, "find", bench.broker().log_dir, _topic(bench), *words)
        yield lambda number: seconds('exec "$@" > /dev/null', *command)

    return opened


def _consumed(options: str, filtered: str) -> Opened:
    """A pipe that begins with kcat; `filtered` are the further words of the shell."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        consume = kcat("-C", bench.broker(), _topic(bench), None, f"-o beginning -e -q {options} {UNWAITING}")
        yield lambda number: seconds(f"{consume} | {filtered} {_TO_THE_END}")

    return opened


def _searched(words: Callable[[str], str]) -> Opened:
    """A search of the extracted values; `words` are those for grep or ripgrep."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        yield lambda number: seconds(f'{words(_GREP)} "$1" {_TO_THE_END}', _values(bench))

    return opened


def _searched_in_mount(words: str) -> Opened:
    """A search of the values of all partitions in a mount; `words` are those for grep or ripgrep."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        topic = _topic(bench)
        with mounted.offsetfs(bench.broker().log_dir, bench.new("mount"), "ro") as mount:
            paths = [mount.path / f"{topic}-{number}" / "values" for number in range(_PARTITIONS)]
            yield lambda number: seconds(f'{_GREP} {words} "$@" {_TO_THE_END}', *paths)

    return opened


_TO_THE_END = "| cat > /dev/null"
"""grep ends at its first match if its output is /dev/null itself."""

_GREP = "rg" if shutil.which("rg") else "grep"


def _row(name: str, what: str, words: tuple[str, ...], *peers: Peer) -> Row:
    ours = Contender("`offsetfs find`", _find(*words))
    return Row(name, what, "s", "records", 3_000_000, 3_000, ours, peers, record_bytes=420)


_JSON = "value->>'state' = 'refused'"

ROWS = (
    _row(
        "find-key",
        "The records of one key in 12 partitions: `find --key`",
        ("--key", _KEY),
        Peer(Contender("`kcat | grep`", _consumed("-f '%k\\t%s\\n'", f"grep '^{_KEY}\t'")), times_as_fast(10)),
    ),
    _row(
        "find-text",
        "A text in one value: `find --text`",
        ("--text", _TEXT),
        Peer(
            Contender(f"`{_GREP} -F` of the extracted values", _searched(lambda g: f"{g} -F '{_TEXT}'")),
            times_as_fast(1),
        ),
        Peer(
            Contender(f"`{_GREP} -F` of `values` in a mount", _searched_in_mount(f"-F '{_TEXT}'")),
            times_as_fast(1),
        ),
        Peer(Contender("`kcat | grep`", _consumed("", f"grep -F '{_TEXT}'")), times_as_fast(1), is_goal=False),
    ),
    _row(
        "find-regex",
        "A regular expression that matches one value: `find --regex`",
        ("--regex", _REGEX),
        Peer(
            Contender(
                f"`{_GREP}` of the extracted values",
                _searched(lambda g: f"{g} {'' if g == 'rg' else '-E'} '{_REGEX}'"),
            ),
            times_as_fast(1),
        ),
        Peer(
            Contender(
                f"`{_GREP}` of `values` in a mount",
                _searched_in_mount(f"{'' if _GREP == 'rg' else '-E'} '{_REGEX}'"),
            ),
            times_as_fast(1),
        ),
    ),
    _row(
        "find-json",
        "A condition on a field of JSON: `find --where`",
        ("--where", _JSON),
        Peer(
            Contender("`kcat -J | jq`", _consumed("-J", "jq -c 'select(.payload | fromjson | .state == \"refused\")'")),
            times_as_fast(1),
        ),
    ),
)
