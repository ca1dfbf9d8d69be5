"""`scripts/bench files-or-tables`: messages in files and in tables, side by side, and the page about it.

The same messages are appended to a log directory, and with `offsetfs table sync` to PostgreSQL and SQLite. Then every
question is put to all of them, in turn and in several rounds; answers have to be equal. Figures are seconds, or bytes,
per message or question: less is better. docs/evidence/files-or-tables/figures.json keeps them, and the page and its
charts are made from it (`files_or_tables_page`).
"""

from __future__ import annotations

import dataclasses
import functools
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import files_or_tables_page as page
from files_or_tables_page import Question
from fixtures.databases import postgres
from machine import Machine
from message_stores import (
    BATCH,
    DAY_MS,
    DAYS,
    TIME_MS,
    FilesStore,
    Messages,
    PostgresStore,
    ServedFiles,
    SqliteStore,
    SqlQuery,
    written_by,
)

NAME = "files-or-tables"
COUNT, COUNT_QUICK = 5_000_000, 3_000
ROUNDS, ROUNDS_QUICK = 3, 1
WRITERS = (1, 4, 16)
FILES = "files"
QUICK_MAX = 100_000
"""Below so many messages a run only shows that everything works."""


def run(count: int, rounds: int, here: Machine, place: Path | None) -> None:
    """Measure, print, and with `place`, which is docs/evidence, write figures, page and charts."""
    folder = Path(tempfile.mkdtemp(prefix="offsetfs-files-or-tables."))
    try:
        with ExitStack() as stack:
            questions = list(_measured(folder, Messages(count), rounds, stack))
    finally:
        shutil.rmtree(folder)
    if place is not None:
        page.save(place, questions, count, here)


def run_part(part: str, count: int, rounds: int, here: Machine, place: Path | None) -> None:
    """Measure the query or the writers alone, and put the figures in the place of those that the page has."""
    folder, messages = Path(tempfile.mkdtemp(prefix="offsetfs-files-or-tables.")), Messages(count)
    try:
        with ExitStack() as stack:
            stores = _stores(folder, messages, stack)
            if part == "writers":
                served = ServedFiles(folder, messages, stack)
                questions = list(_writers(stores, served, _Numbers(stores), rounds, quick=count < QUICK_MAX))
            else:
                for each in stores:
                    each.load()
                questions = [_query(stores, rounds)]
    finally:
        shutil.rmtree(folder)
    if place is not None:
        before, count_before, machine = page.load(place)
        if count != count_before:
            raise ValueError(f"the page is about {count_before} messages: give --count {count_before}")
        changed = {each.name: dataclasses.replace(each, run=str(here)) for each in questions}
        page.save(place, [changed.get(each.name, each) for each in before], count, machine)


def _stores(folder: Path, messages: Messages, stack: ExitStack) -> list[Any]:
    """Return the files, PostgreSQL and SQLite, without messages."""
    files = stack.enter_context(_closing(FilesStore(folder, messages)))
    server = stack.enter_context(postgres.running({"fsync": "on"}))
    return [
        files,
        stack.enter_context(_closing(PostgresStore(server, files, messages))),
        stack.enter_context(_closing(SqliteStore(folder, files, messages))),
    ]


class _Numbers:
    """The numbers of messages that a store has not got yet."""

    def __init__(self, stores: Sequence[Any]) -> None:
        self._next = {each.name: 0 for each in stores}

    def take(self, store: Any, count: int) -> range:
        start = self._next[store.name]
        self._next[store.name] = start + count
        return range(start, start + count)


def _measured(folder: Path, messages: Messages, rounds: int, stack: ExitStack) -> Iterator[Question]:
    quick = messages.count < QUICK_MAX
    stores = _stores(folder, messages, stack)
    files, *tables = stores
    served = ServedFiles(folder, messages, stack)
    numbers = _Numbers(stores)

    def of_each(ask: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
        return {store.name: functools.partial(ask, store) for store in stores}

    def sizes(name: str, *others: Any) -> Question:
        found = {store.name: [float(store.bytes_on_disk())] for store in (files, *others, *tables)}
        return _printed(Question(name, messages.count, found))

    singles, batched = (5, 2 * BATCH) if quick else (300, 20 * BATCH)
    yield _asked("append-one", singles, rounds, of_each(lambda store: store.append_one(numbers.take(store, singles))))
    yield _asked(
        "append-batches", batched, rounds, of_each(lambda store: store.append_batches(numbers.take(store, batched)))
    )
    yield from _writers(stores, served, numbers, rounds, quick=quick)
    yield _asked("load", messages.count, 1, of_each(lambda store: store.load()), warm=False)
    packed = stack.enter_context(_closing(FilesStore(folder, messages, "zstd")))
    packed.load()
    yield sizes("bytes", packed)
    yield from _read(stores, messages, rounds, quick=quick)
    yield _asked("delete-day", 1, 1, of_each(lambda store: store.delete_first_day()), warm=False)
    yield sizes("bytes-after-delete")
    yield _asked("reclaim", 1, 1, {table.name: table.reclaim for table in tables}, warm=False)
    yield sizes("bytes-after-reclaim")


def _writers(
    stores: Sequence[Any], served: ServedFiles, numbers: _Numbers, rounds: int, *, quick: bool
) -> Iterator[Question]:
    each = 3 if quick else 100
    for writers in WRITERS:
        asked: dict[str, Callable[[], Any]] = {
            store.name: functools.partial(_write, store, numbers, writers, each) for store in stores
        }
        asked[page.SERVED] = functools.partial(written_by, served, writers, each, 0)
        yield _asked(f"writers-{writers}", writers * each, rounds, asked)


def _write(store: Any, numbers: _Numbers, writers: int, each: int) -> None:
    written_by(store, writers, each, numbers.take(store, writers * each).start)


def _read(stores: Sequence[Any], messages: Messages, rounds: int, *, quick: bool) -> Iterator[Question]:
    numbers = random.Random(messages.count)
    look_ups = 20 if quick else 2000
    offsets = numbers.choices(range(messages.count), k=look_ups)
    times = [TIME_MS + numbers.randrange(DAYS * DAY_MS - DAY_MS) for _ in range(look_ups)]
    keys = [messages.key(numbers.randrange(messages.count)) for _ in range(look_ups)]
    yield _asked("key-index", 1, 1, {FILES: stores[0].build_index}, warm=False)
    streams: dict[str, Callable[[], Any]] = {store.name: store.stream for store in stores}
    yield _asked("stream", messages.count, rounds, {**streams, page.VALUES: stores[0].stream_values})
    asked: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("by-offset", lambda store: store.by_offset(offsets)),
        ("by-time", lambda store: store.by_time(times)),
        ("by-key", lambda store: store.by_key(keys)),
    )
    for name, ask in asked:
        yield _asked(name, look_ups, rounds, {store.name: functools.partial(ask, store) for store in stores})
    yield _query(stores, rounds)


def _query(stores: Sequence[Any], rounds: int) -> Question:
    queries: dict[str, Callable[[], Any]] = {store.name: store.query for store in stores}
    if SqlQuery.is_available():
        queries[page.SQL] = SqlQuery(stores[0].path).query
    return _asked("query", 1, rounds, queries)


def _asked(
    name: str, count: int, rounds: int, contenders: Mapping[str, Callable[[], Any]], *, warm: bool = True
) -> Question:
    """Return the seconds that each contender takes, in turn; a first round does not count where it can be repeated."""
    figures: dict[str, list[float]] = {each: [] for each in contenders}
    for number in range(-1 if warm else 0, rounds):
        answers = []
        for contender, ask in contenders.items():
            begun = time.perf_counter()
            answers.append(ask())
            taken = time.perf_counter() - begun
            if number >= 0:
                figures[contender].append(taken)
        if any(answer not in (answers[0], None) for answer in answers):
            raise AssertionError(f"{name}: {dict(zip(contenders, answers, strict=True))}")
    return _printed(Question(name, count, figures))


def _printed(question: Question) -> Question:
    print(page.line(question), flush=True)
    return question


@contextmanager
def _closing(store: Any) -> Iterator[Any]:
    try:
        yield store
    finally:
        store.close()
