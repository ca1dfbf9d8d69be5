"""Commands that are timed: a shell script, our own command on one core, and kcat."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench import Bench
from fixtures.kafka.broker import KafkaBroker

OFFSETFS = (sys.executable, "-m", "offsetfs")


def seconds(script: str, *words: object) -> float:
    """Return how long a shell script runs; `$1`, `$2`, … are `words`."""
    start = time.perf_counter()
    subprocess.run(["sh", "-c", script, "sh", *map(str, words)], check=True)
    return time.perf_counter() - start


def one_core() -> tuple[str, ...]:
    """Return what to put before a command so that all of it, its threads included, runs on the last of our cores."""
    return ("taskset", "--cpu-list", str(max(os.sched_getaffinity(0))))


def kcat(mode: str, broker: KafkaBroker, topic: str, partition: int | None, options: str = "") -> str:
    """Return the shell's words for kcat; without a partition records go where its partitioner says."""
    place = "" if partition is None else f"-p {partition}"
    return f"kcat {mode} -b {broker.address} -t {topic} {place} {options}"


# Without these kcat waits half a second at the end, and a whole one whenever its queue is full.
UNWAITING = "-X fetch.wait.max.ms=10 -X queued.min.messages=10000000 -X queued.max.messages.kbytes=2097151"


def kcat_produce(bench: Bench, topic: str, partition: int, lines: object, codec: str = "none") -> float:
    """Return how long `kcat -P` of a file takes, until all of it is acknowledged."""
    return seconds(f'exec {kcat("-P", bench.broker(), topic, partition, f"-z {codec}")} < "$1"', lines)


def lines_topic(bench: Bench) -> str:
    """Return the topic with the lines of `bench`, which kcat wrote."""
    return bench.topic("lines", lambda name: kcat_produce(bench, name, 0, bench.lines()))


def kcat_consume_all(bench: Bench, topic: str, options: str = "") -> str:
    """Return the shell's words for reading a partition from its beginning to its end."""
    return kcat("-C", bench.broker(), topic, 0, f"-o beginning -e -q {UNWAITING} {options}")
