"""Settings of topics change while a directory is open, by us or by another process, and hold at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, data, marker
from fixtures.logs.small_logs import BATCH_BYTES, SmallLog, record
from fixtures.simulation.fake_clock import FakeClock
from fixtures.spies import spy

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import InvalidCheckpoint, InvalidConfig, InvalidName, ReadOnlyLog, RecordTooLarge
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import retention
from offsetfs.storage.partition.producers import COMMIT
from offsetfs.storage.settings.config import DEFAULTS
from offsetfs.storage.settings.topic_settings import LOOK_INTERVAL_S, TOPICS, TopicSettings

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

Make = Callable[..., SmallLog]
LOOK_MS = LOOK_INTERVAL_S * 1000


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[SmallLog] = []

    def make_log(**settings: str) -> SmallLog:
        made.append(SmallLog(tmp_path / f"log-{len(made)}", FakeClock(), **settings))
        return made[-1]

    yield make_log
    for small in made:
        small.directory.close()


# --- what changes ----------------------------------------------------------------------------------------------------


def test_a_smaller_segment_rolls_with_the_next_append(make: Make) -> None:
    small = make()
    for _ in range(3):
        small.log.append(record(1000))
    assert small.bases == [0]
    small.directory.configure("orders", {"segment.bytes": str(2 * BATCH_BYTES)})
    for _ in range(3):
        small.log.append(record(1000))
    assert small.bases == [0, 3, 5]
    small.directory.configure("orders", {"segment.bytes": None})
    for _ in range(3):
        small.log.append(record(1000))
    assert small.bases == [0, 3, 5]


def test_a_shorter_segment_ms_rolls_with_the_next_append(make: Make) -> None:
    small = make()
    small.log.append(record(1000))
    small.log.append(record(61_000))
    small.directory.configure("orders", {"segment.ms": "60000"})
    small.log.append(record(61_000))
    assert small.bases == [0]
    small.log.append(record(61_001))
    assert small.bases == [0, 3]


def test_a_jitter_that_is_longer_than_the_new_segment_ms_does_not_roll_for_ever(make: Make) -> None:
    small = make(segment_jitter_ms="100000000")
    small.directory.configure("orders", {"segment.ms": "1000", "segment.jitter.ms": "0"})
    for _ in range(3):
        small.log.append(record(1000))
    assert small.bases == [0]


def test_a_smaller_record_is_refused_with_the_next_append(make: Make) -> None:
    small = make()
    small.log.append(record(1000))
    small.directory.configure("orders", {"max.message.bytes": str(BATCH_BYTES - 1)})
    with pytest.raises(RecordTooLarge):
        small.log.append(record(1000))
    small.directory.configure("orders", {"max.message.bytes": str(BATCH_BYTES)})
    small.log.append(record(1000))


def test_the_time_of_appending_is_stamped_from_the_next_append_on(make: Make) -> None:
    small = make()
    small.log.append(record(5))
    small.directory.configure("orders", {"message.timestamp.type": "LogAppendTime"})
    small.log.append(record(5))
    batches = [small.log.batch_at(offset) for offset in (0, 1)]
    assert [batch.records()[0].timestamp for batch in batches if batch] == [5, small.clock.now_ms()]


def test_retention_goes_by_what_holds_now(make: Make) -> None:
    small = make(retention_ms="-1")
    small.segment(small.clock.now_ms() - 5000)
    small.segment(small.clock.now_ms())
    for settings, left in (({"retention.ms": "5000"}, [0, 1, 2]), ({"retention.ms": "4999"}, [1, 2])):
        small.directory.configure("orders", settings)
        retention.sweep(small.directory, [PARTITION], small.clock.now_ms())
        assert small.bases == left


def test_a_topic_that_becomes_compacted_changes_its_logs(make: Make) -> None:
    small = make()
    for policy, expected in (("compact", True), ("compact,delete", True), ("delete", False), (None, False)):
        small.directory.configure("orders", {"cleanup.policy": policy})
        assert small.log.is_compacted is expected
    (small.path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    small.reopen()
    assert small.log.is_compacted, "a broker's cleaner was here"
    small.directory.configure("orders", {"cleanup.policy": "delete"})
    assert not small.log.is_compacted, "but what is said outright counts"


def test_each_segment_and_the_next_one_go_by_the_new_settings(make: Make) -> None:
    small = make()
    small.segment(1, 2)
    small.directory.configure("orders", {"segment.index.bytes": "4000", "index.interval.bytes": "0"})
    small.segment(3, 4)
    assert {segment.config for segment in small.log.snapshot()} == {small.log.config}
    assert os.stat(small.log.snapshot().active.path(".index")).st_size == 4000


def test_a_setting_taken_away_has_its_default_and_other_topics_keep_theirs(make: Make) -> None:
    small = make(retention_ms="1", segment_bytes="1000")
    other = small.directory.create_partition(TopicPartition("other", 0), {"retention.ms": "2"})
    small.directory.configure("orders", {"retention.ms": None, "flush.ms": "3"})
    assert (small.log.config.retention_ms, small.log.config.segment_bytes) == (DEFAULTS.retention_ms, 1000)
    assert (small.log.config.flush_ms, other.config.retention_ms) == (3, 2)
    small.directory.configure("orders", {"flush.ms": None, "segment.bytes": None})
    assert json.loads((small.path / TOPICS).read_text())["topics"] == {"other": {"retention.ms": "2"}}
    assert small.log.config == DEFAULTS


def test_what_is_given_to_the_directory_holds_where_the_topic_sets_nothing(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path), defaults={"retention.ms": "7"})
    log = directory.create_partition(PARTITION, {"retention.ms": "8"})
    assert log.config.retention_ms == 8
    directory.configure("orders", {"retention.ms": None})
    assert log.config.retention_ms == 7
    directory.close()


# --- what is refused --------------------------------------------------------------------------------------------------

REFUSED = {
    "an unknown name": ({"retention.msec": "1"}, r"unknown setting 'retention.msec'; did you mean retention.ms"),
    "an unknown name to take away": ({"retention.msec": None}, r"unknown setting 'retention.msec'"),
    "a directory's setting": ({"log.cleaner.threads": "1"}, r"unknown setting 'log.cleaner.threads'"),
    "a value out of range": ({"retention.ms": "-2"}, r"retention.ms is -2, but must be a whole number, -1 or greater"),
    "no number": ({"segment.bytes": "1M"}, r"segment.bytes is '1M'"),
    "a policy that is none": ({"cleanup.policy": "shrink"}, r"cleanup.policy is 'shrink', but must be a list of"),
    "lags that contradict each other": (
        {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
        r"min.compaction.lag.ms 2 is above max.compaction.lag.ms 1",
    ),
    "a lag that contradicts one that is there": ({"min.compaction.lag.ms": "5001"}, r"5001 is above .* 5000"),
    "tiers": ({"remote.storage.enable": "true"}, r"remote.storage.enable is 'true', but must be false"),
    "one that is wrong among some that are right": ({"flush.ms": "1", "retention.bytes": "x"}, r"retention.bytes"),
}


@pytest.mark.promise(
    "A setting that is unknown, out of range or in conflict with another one is refused by name, and changes nothing."
)
@pytest.mark.parametrize(("changes", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_legal_is_refused_by_name_and_changes_nothing(
    make: Make, changes: dict[str, str | None], reason: str
) -> None:
    small = make(max_compaction_lag_ms="5000")
    before, text = small.log.config, (small.path / TOPICS).read_text()
    with pytest.raises(InvalidConfig, match=reason):
        small.directory.configure("orders", changes)
    assert small.log.config is before and (small.path / TOPICS).read_text() == text


def test_settings_are_of_topics_and_not_a_readers_to_change(make: Make) -> None:
    small = make()
    with pytest.raises(InvalidName):
        small.directory.configure("no/topic", {"retention.ms": "1"})
    with pytest.raises(ReadOnlyLog):
        LogDirectory.open(str(small.path), read_only=True).configure("orders", {"retention.ms": "1"})


# --- another process --------------------------------------------------------------------------------------------------


def change(path: Path, name: str, value: str | None) -> None:
    """Do as a command does beside a mount: it does not hold the directory's lock."""
    TopicSettings(str(path)).change("orders", {name: value})


def test_what_another_process_sets_holds_at_the_next_look(make: Make) -> None:
    small = make()
    assert small.directory.refresh_config() is None
    change(small.path, "segment.bytes", str(BATCH_BYTES))
    small.clock.advance(LOOK_MS)
    assert small.directory.refresh_config() is None
    assert small.log.config.segment_bytes == BATCH_BYTES
    small.log.append(record(1))
    small.log.append(record(1))
    assert small.bases == [0, 1]


def test_a_look_costs_one_stat_and_at_most_a_hundred_a_second(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = make()
    small.directory.refresh_config()
    looks: list[str] = []
    monkeypatch.setattr("offsetfs.storage.files.status", spy(looks, lambda path: path, os.lstat))
    monkeypatch.setattr("offsetfs.storage.files.read_file", lambda *_: pytest.fail("reads"))
    for _ in range(100):
        small.directory.refresh_config()
    assert looks == []
    small.clock.advance(LOOK_MS)
    for _ in range(100):
        small.directory.refresh_config()
    assert looks == [str(small.path / TOPICS)]
    monkeypatch.undo()


def test_a_log_that_is_opened_later_has_the_new_settings_too(make: Make) -> None:
    small = make()
    small.reopen()
    other = TopicPartition("orders", 1)
    small.directory.create_partition(other)
    small.reopen()
    change(small.path, "retention.ms", "5")
    small.clock.advance(LOOK_MS)
    small.directory.refresh_config()
    assert (small.directory.log(other).config, small.log.config.retention_ms) == (small.log.config, 5)


CONTENTS = {
    "cut short": '{"version": 0, "topics": {"orders": {"reten',
    "nothing": "",
    "a list": "[]",
    "no topics": '{"version": 0}',
    "a setting that is not text": '{"version": 0, "topics": {"orders": {"retention.ms": 5}}}',
    "an illegal topic": '{"version": 0, "topics": {"a/b": {"retention.ms": "5"}}}',
    "an unknown name": '{"version": 0, "topics": {"orders": {"retention.msec": "5"}}}',
    "a contradiction": '{"topics": {"orders": {"max.compaction.lag.ms": "1", "min.compaction.lag.ms": "2"}}}',
    "deeply nested": '{"topics": ' + "[" * 100_000,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_with_invalid_settings_changes_nothing_and_is_reported(make: Make, content: str) -> None:
    small = make(retention_ms="7")
    before = small.log.config
    (small.path / TOPICS).write_text(content)
    small.clock.advance(LOOK_MS)
    for _ in range(2):
        problem = small.directory.refresh_config()
        assert isinstance(problem, InvalidConfig | InvalidCheckpoint) and problem.path == str(small.path / TOPICS)
        assert small.log.config is before
        small.clock.advance(LOOK_MS)
    small.log.append(record(1))
    with pytest.raises((InvalidConfig, InvalidCheckpoint)):
        small.directory.configure("orders", {"retention.ms": "8"})
    (small.path / TOPICS).write_text('{"version": 0, "topics": {"orders": {"retention.ms": "9"}}}')
    small.clock.advance(LOOK_MS)
    assert small.directory.refresh_config() is None
    assert small.log.config.retention_ms == 9


def test_a_file_that_is_gone_takes_all_settings_away(make: Make) -> None:
    small = make(retention_ms="7")
    (small.path / TOPICS).unlink()
    small.clock.advance(LOOK_MS)
    assert small.directory.refresh_config() is None
    assert small.log.config == DEFAULTS


def test_settings_that_contradict_what_the_directory_was_given_change_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    directory = LogDirectory.open(str(tmp_path), defaults={"max.compaction.lag.ms": "1000"}, clock=clock)
    log = directory.create_partition(PARTITION)
    change(tmp_path, "min.compaction.lag.ms", "2000")
    clock.advance(LOOK_MS)
    assert "topic orders: min.compaction.lag.ms 2000 is above" in str(directory.refresh_config())
    assert log.config.min_compaction_lag_ms == 0
    directory.close()


def test_changes_of_several_processes_are_all_there(make: Make) -> None:
    small = make()
    program = (
        "import sys; from offsetfs.storage.settings.topic_settings import TopicSettings\n"
        "for number in range(15): TopicSettings(sys.argv[1]).change(f'topic-{sys.argv[2]}-{number}', {'flush.ms': '1'})"
    )
    others = [subprocess.Popen([sys.executable, "-c", program, str(small.path), str(each)]) for each in range(2)]
    for number in range(15):
        small.directory.configure(f"topic-own-{number}", {"flush.ms": "1"})
    assert [other.wait(60) for other in others] == [0, 0]
    topics = json.loads((small.path / TOPICS).read_text())["topics"]
    assert sorted(topics) == sorted(f"topic-{who}-{number}" for who in (0, 1, "own") for number in range(15))


def test_settings_change_while_others_append_and_open_logs(make: Make) -> None:
    small = make()
    errors: list[BaseException] = []

    def guarded(action: Callable[[int], object]) -> None:
        try:
            for number in range(60):
                action(number)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=guarded, args=(action,))
        for action in (
            lambda number: small.log.append(record(number)),
            lambda number: small.directory.configure("orders", {"segment.bytes": str(500 + number)}),
            lambda number: small.directory.create_partition(TopicPartition("orders", 1 + number)),
            lambda number: small.directory.refresh_config(),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == [] and not any(thread.is_alive() for thread in threads)
    assert {small.directory.log(partition).config.segment_bytes for partition in small.directory.partitions()} == {559}
    small.log.check()


# --- producers --------------------------------------------------------------------------------------------------------


@pytest.mark.damages
def test_idle_producers_are_forgotten_and_those_with_an_open_transaction_never(make: Make) -> None:
    small = make()
    for batch in (data(1, 0, 1, is_transactional=False), data(2, 0, 1), data(3, 0, 1), marker(3, COMMIT)):
        small.log.append(batch)
    expires_at = 1000 + 86_400_000  # each batch is of millisecond 1000
    assert small.log.expire_producers(expires_at - 1, 86_400_000) == 0
    assert small.log.expire_producers(-(2**62), 86_400_000) == 0, "a clock that was set back"
    assert small.log.expire_producers(expires_at, 86_400_000) == 2
    assert list(small.log.producers()) == [2]
    assert small.log.expire_producers(2**62, 86_400_000) == 0
    small.log.append(data(1, 7, 1, is_transactional=False))
    assert small.log.producers()[1].last_sequence == 7
