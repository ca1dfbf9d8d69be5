"""Row 14: any sequence of what people do in a mount, held against lists.

Hypothesis draws what happens: appends of every kind, deletion of records, retention, compaction, other settings, an end
in order and a death of the daemon, each with a new mount. After each step every view of every partition shows what the
lists say: `values`, `records.ndjson`, single records and their parts, `range/`, `last/`, `by-key/`, ends and numbers.

Everything goes through system calls on a real mount; the model knows nothing of batches and files. Where a view shows
the log as it was, for it is compacted behind our back, it may show more than the model, but nothing else.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from daemons import SECONDS_MAX, Daemon, mounted
from fault_program import Row
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from mounted_model import Appended, Model

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.settings.topic_settings import TopicSettings

EXAMPLES_A_ROUND = 3
STEPS_MAX = 25
OPTIONS = (
    "delete-records,linger-ms=1000,log.initial.task.delay.ms=0,log.cleaner.backoff.ms=50,"
    "log.retention.check.interval.ms=50"
)
PLAIN, KEYED = "orders-0", "users-0"
TOPICS = {
    PLAIN: {"segment.bytes": "1500", "retention.ms": "-1"},
    KEYED: {"segment.bytes": "1000", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}

lines = st.lists(st.binary(max_size=20).map(lambda text: text.replace(b"\n", b"\r")), min_size=1, max_size=8)
keys = st.sampled_from([b"a", b"b", b"c/d", b"\xff", b"%"])
values = st.one_of(st.none(), st.binary(max_size=12), st.integers(0, 400).map(lambda size: b"v" * size))
headers = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=2)
times = st.integers(0, 2_000_000_000_000)
records = st.tuples(keys, values, headers, times)
numbers = st.integers(0, 1 << 30)


class Machine(RuleBasedStateMachine):
    """One log directory, mounted again and again."""

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        self.home = Path(tempfile.mkdtemp(prefix="offsetfs-mounted-"))
        self.stack.callback(shutil.rmtree, self.home)
        self.models = {name: Model() for name in TOPICS}
        self.steps = self.mounts = 0
        (self.home / "log").mkdir()
        directory = LogDirectory.open(str(self.home / "log"))
        for name, properties in TOPICS.items():
            directory.create_partition(TopicPartition.parse(name), properties)
        directory.close()
        self._mount()

    def _mount(self) -> None:
        self.mounts += 1
        self.mounting = ExitStack()
        self.stack.callback(self.mounting.close)
        path = self.home / f"mnt{self.mounts}"
        self.daemon: Daemon = self.mounting.enter_context(mounted(self.home / "log", path, OPTIONS))

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()

    def _at(self, *names: str) -> Path:
        return self.daemon.path.joinpath(*names)

    # --- appending ---------------------------------------------------------------------------------------------------

    @rule(values=lines, is_finished=st.booleans(), piece=st.integers(1, 50))
    def append_lines(self, values: list[bytes], is_finished: bool, piece: int) -> None:
        data = b"\n".join(values) + (b"\n" if is_finished or not values[-1] else b"")
        self._write("append", PLAIN, data, piece)
        self.models[PLAIN].records += [Appended(None, value) for value in values]

    @rule(
        partition=st.sampled_from([PLAIN, KEYED]), drawn=st.lists(st.tuples(keys, values, headers, times), max_size=6)
    )
    def append_json(self, partition: str, drawn: list[tuple[Any, ...]]) -> None:
        appended = [Appended(key, value, tuple(pairs), timestamp) for key, value, pairs, timestamp in drawn]
        self._write("append.ndjson", partition, b"".join(record.line() for record in appended), 1 << 20)
        self.models[partition].records += appended

    @rule(value=st.binary(min_size=1, max_size=300), piece=st.integers(1, 200))
    def append_raw(self, value: bytes, piece: int) -> None:
        self._write("append.raw", PLAIN, value, piece)
        self.models[PLAIN].records.append(Appended(None, value))

    @rule(drawn=st.lists(records, min_size=1, max_size=4))
    def append_to_a_topic(self, drawn: list[tuple[Any, ...]]) -> None:
        appended = [Appended(key, value, tuple(pairs), timestamp) for key, value, pairs, timestamp in drawn]
        topic = KEYED.rpartition("-")[0]
        with open(self._at("topics", topic, "append.ndjson"), "ab", buffering=0) as file:
            file.write(b"".join(record.line() for record in appended))
        self.models[KEYED].records += appended

    @rule()
    def append_what_is_refused(self) -> None:
        """A compacted topic takes no record without a key; nothing of it is seen."""
        file = os.open(self._at(KEYED, "append.ndjson"), os.O_WRONLY)
        try:
            assert _errno_of(lambda: os.write(file, b'{"value":"x"}\n')) == errno.EINVAL
        finally:
            os.close(file)

    def _write(self, name: str, partition: str, data: bytes, piece: int) -> None:
        with open(self._at(partition, name), "ab", buffering=0) as file:
            for start in range(0, len(data), piece):
                assert file.write(data[start : start + piece]) == len(data[start : start + piece])

    # --- what happens to logs ----------------------------------------------------------------------------------------

    @rule(where=numbers)
    def delete_records(self, where: int) -> None:
        model = self.models[PLAIN]
        offset = model.start + where % (model.end - model.start + 1)
        self._at(PLAIN, "start").write_text(f"{offset}\n")
        model.start = offset

    @rule(size=st.sampled_from([0, 1000, 3000]))
    def retain(self, size: int) -> None:
        """Let retention work, wait until it has nothing more to do, and let it be."""
        model = self.models[PLAIN]
        self._configure("orders", {"retention.bytes": str(size)})
        self._until(lambda: self._is_retained(size), "retention has not worked")
        self._configure("orders", {"retention.bytes": "-1"})
        start = self._number(PLAIN, "start")
        assert model.start <= start <= model.end, "the log start fell, or is beyond the end"
        model.start = start

    def _is_retained(self, size: int) -> bool:
        """Whether retention has nothing more to take: where there is to be nothing, the active segment goes, too."""
        try:
            sizes = [path.stat().st_size for path in sorted(self._at(PLAIN, "segments").glob("*.log"))]
        except OSError:
            return False  # one of them went between the two looks
        is_empty = self._number(PLAIN, "start") == self._number(PLAIN, "next")
        return sum(sizes) - sizes[0] < size if size else is_empty

    @rule(size=st.sampled_from(["700", "1500", "100000"]))
    def configure(self, size: str) -> None:
        self._configure("orders", {"segment.bytes": size})

    def _configure(self, topic: str, changes: dict[str, str | None]) -> None:
        TopicSettings(str(self.home / "log")).change(topic, changes)

    # --- ends and beginnings -----------------------------------------------------------------------------------------

    @rule()
    def mount_again(self) -> None:
        assert self.daemon.unmount() == 0, self.daemon.said
        self._end()

    @rule()
    def kill_and_mount_again(self) -> None:
        """All files are closed: what was accepted is in the segment files, and survives."""
        self.daemon.kill()
        self._end()

    def _end(self) -> None:
        assert "ERROR" not in self.daemon.said and "Traceback" not in self.daemon.said, self.daemon.said
        self.mounting.close()
        self._mount()

    # --- looking -----------------------------------------------------------------------------------------------------

    @invariant()
    def every_view_shows_what_was_appended(self) -> None:
        if not hasattr(self, "daemon"):
            return
        self.steps += 1
        for name, model in self.models.items():
            # The kernel reports the last close a moment after it returned: what is unfinished becomes a record then.
            self._until(partial(self._ends_at, name, model.end), f"{name} lacks records")
            shown = self._shown(name, model)
            if name == PLAIN:
                assert self._number(name, "start") == model.start
                assert list(shown) == list(range(model.start, model.end)), f"{list(shown)} from {model.start}"
            else:
                kept = {offset: model.records[offset] for offset in shown}
                latest = {record.key: record for record in kept.values()}
                assert latest == model.latest(), "compaction took the last value of a key"

    def _shown(self, name: str, model: Model) -> dict[int, dict[str, Any]]:
        """Return what `records.ndjson` shows by offset, each as it was appended, as do the views beside it."""
        lines = self._at(name, "records.ndjson").read_bytes().splitlines()
        shown = {fields["offset"]: fields for fields in map(json.loads, lines)}
        assert list(shown) == sorted(shown) and len(shown) == len(lines)
        for offset, fields in shown.items():
            assert model.records[offset].is_shown_by(fields), f"{offset}: {fields} is not {model.records[offset]}"
        if name == PLAIN:  # the other one may be compacted between two looks
            values = b"".join((model.records[offset].value or b"") + b"\n" for offset in shown)
            assert self._at(name, "values").read_bytes() == values
        return shown

    @rule(where=numbers)
    def look_at_a_record(self, where: int) -> None:
        model = self.models[PLAIN]
        if model.start == model.end:
            assert not os.path.lexists(self._at(PLAIN, "first")) and not os.path.lexists(self._at(PLAIN, "latest"))
            return
        offset = model.start + where % (model.end - model.start)
        record = model.records[offset]
        assert self._at(PLAIN, str(offset)).read_bytes() == (record.value or b"")
        assert record.is_shown_by(json.loads(self._at(PLAIN, f"{offset}.json").read_bytes()))
        if record.key is None:
            assert _errno_of(self._at(PLAIN, f"{offset}.key").stat) == errno.ENOENT
        else:
            assert self._at(PLAIN, f"{offset}.key").read_bytes() == record.key
        ends = [int(os.readlink(self._at(PLAIN, each))) for each in ("first", "latest")]
        assert ends == [model.start, model.end - 1]

    @rule(a=numbers, b=numbers)
    def look_at_a_range(self, a: int, b: int) -> None:
        model = self.models[PLAIN]
        start, end = sorted(model.start + each % (model.end - model.start + 1) for each in (a, b))
        joined = b"".join((record.value or b"") + b"\n" for record in model.records[start:end])
        assert self._at(PLAIN, "range", f"{start}..{end}").read_bytes() == joined
        newest = model.records[max(model.start, model.end - 3) :]
        assert self._at(PLAIN, "last", "3").read_bytes() == b"".join((record.value or b"") + b"\n" for record in newest)
        assert _errno_of(self._at(PLAIN, str(model.end)).stat) == errno.ENOENT
        assert not model.start or _errno_of(self._at(PLAIN, str(model.start - 1)).stat) == errno.ENOENT

    @rule(key=keys)
    def look_by_key(self, key: bytes) -> None:
        name = os.fsdecode(key.replace(b"%", b"%25").replace(b"/", b"%2F"))
        record = self.models[KEYED].latest().get(key)
        path = self._at(KEYED, "by-key", name)
        if record is None or record.value is None:
            assert _errno_of(path.stat) == errno.ENOENT
        else:
            assert path.read_bytes() == record.value

    def _ends_at(self, name: str, end: int) -> bool:
        return self._number(name, "next") == end

    def _number(self, partition: str, name: str) -> int:
        return int(self._at(partition, name).read_text())

    def _until(self, condition: Callable[[], bool], complaint: str) -> None:
        end = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < end, complaint
            time.sleep(0.005)


def _errno_of(act: Callable[[], object]) -> int | None:
    try:
        act()
    except OSError as error:
        return error.errno
    return None


def play(random_seed: int, scratch: Path) -> int:
    """Run a few examples of up to 25 steps, drawn by the seed; return the number of steps."""
    steps = 0

    class Drawn(Machine):
        def teardown(self) -> None:
            nonlocal steps
            steps += self.steps
            super().teardown()

    run_state_machine_as_test(
        seed(random_seed)(Drawn),
        settings=settings(
            max_examples=EXAMPLES_A_ROUND,
            stateful_step_count=STEPS_MAX,
            database=None,
            deadline=None,
            derandomize=False,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )
    return steps


ROW = Row(
    14,
    "mounted_state_machine",
    "any sequence of what people do in a mount",
    play,
    seeds_in_ci=range(1),
    goal=5_000,
    unit="steps",
    needs=("fuse",),
    promises=("Records that are visible after a crash are still there after the next crash.",),
)
