"""What the rows of one run share: a folder for data, and what is made once and used by several rows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import brokers
import logs
import mounted
from fixtures.kafka.broker import KafkaBroker
from logs import SparseLog

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bench:
    """One run, or with `count` filled in, one row of it.

    `rounds` does not count the warm-up; `reads` is how many single records are read in each, and `sparse_batches` how
    many batches a log of holes has to read them from. `is_full`: sizes are those of the table.
    """

    folder: Path
    rounds: int
    reads: int
    sparse_batches: int
    is_full: bool
    until_the_end: ExitStack
    count: int = 0
    _made: dict[object, Any] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def for_row(self, count: int) -> Bench:
        return dataclasses.replace(self, count=count)

    def new(self, kind: str) -> Path:
        """Return a path in the folder that is not in use."""
        return self.folder / f"{kind}-{next(self._numbers)}"

    def lines(self) -> Path:
        """A file of `count` lines, alike but for their number."""
        return self.once(("lines", self.count), lambda: logs.lines(self.new("lines"), self.count))

    def prose(self) -> Path:
        """A file of `count` lines of words, for compression."""
        return self.once(("prose", self.count), lambda: logs.prose(self.new("prose"), self.count))

    def filled(self, batch_bytes: int) -> Path:
        """A log directory with those lines, in batches of that size."""
        return self.once(
            ("filled", self.count, batch_bytes), lambda: logs.filled(self.new("log"), self.lines(), batch_bytes)
        )

    def sparse(self, segments: int) -> SparseLog:
        """A partition of that many segments of 1 GiB, of which `sparse_batches` can be read."""
        return self.once(("sparse", segments), lambda: logs.sparse(self.new("log"), segments, self.sparse_batches))

    def broker(self) -> KafkaBroker:
        """A running Kafka. A topic that is not there is made when it is written to, with a partition for each round."""
        settings = {"num.partitions": str(self.rounds + 1), **brokers.SETTINGS}

        def make() -> KafkaBroker:
            return self.until_the_end.enter_context(mounted.broker(self.new("kafka"), settings))

        return self.once("broker", make)

    def topic(self, name: str, fill: Callable[[str], object] = lambda name: None, partitions: int | None = None) -> str:
        """A topic of the broker for `count` records, its name; `fill` puts the records into it."""

        def make() -> str:
            full_name = f"{name}-{self.count}"
            if partitions:
                self.broker().create_topic(full_name, partitions)
            fill(full_name)
            return full_name

        return self.once(("topic", name, self.count), make)

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return what `make` returned for `key` when it was first asked for."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made
