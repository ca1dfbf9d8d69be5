"""Mirrors of a running Kafka: `offsetfs mirror`, kcat that reads the same topic, and a copy of its files."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator

import logs
from bench import Bench
from commands import UNWAITING, seconds
from measuring import Contender, Measure, Opened, Peer, Row, times_as_fast
from served_logs import filled, kafka

MIRROR = 'exec "$1" -m offsetfs mirror "$2" "$3" --topic "$4" --once'


def _into_a_directory(script: str) -> Opened:
    """Return how long a script takes to copy the topic of lines to a new place, `$3`."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        with filled(kafka, bench) as (server, topic):

            def measure(number: int) -> float:
                target = bench.new("copy")
                try:
                    return seconds(script, sys.executable, server.address, target, topic, server.log_dir)
                finally:
                    shutil.rmtree(target) if target.is_dir() else target.unlink()

            yield measure

    return opened


def _row(name: str, what: str, peers: tuple[Peer, ...]) -> Row:
    return Row(
        name,
        what,
        unit="s",
        of="records",
        count=5_000_000,
        count_quick=5_000,
        ours=Contender("offsetfs mirror --once", _into_a_directory(MIRROR)),
        peers=peers,
        record_bytes=logs.LINE_BYTES,
    )


ROWS = (
    _row(
        "mirror",
        "a partition of a running Kafka into a new directory, from the start of the command to its end",
        (
            Peer(
                Contender(
                    "kcat -C > file",
                    _into_a_directory(f'exec kcat -C -b "$2" -t "$4" -p 0 -o beginning -e -q {UNWAITING} > "$3"'),
                ),
                times_as_fast(3),
            ),
            Peer(
                Contender("cp of the segments", _into_a_directory('exec cp -r "$5/$4-0" "$3"')),
                times_as_fast(0.7),
            ),
        ),
    ),
)
