"""Clients of a broker that is killed meanwhile, each in a thread, and what they record of it in a `ClientHistory`.

The clients are those of confluent-kafka. Each goes on until `Recorder.stop` is set; what it could not do because the
broker was away is tried again, or of unknown outcome. An exception that is none of the broker's ends the thread and is
a finding: `Client.join`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from client_history import ClientHistory, Commit, FullRead, LookUp, Outcome, Partition, Read, Start, Write
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS_MAX = 90
"""What takes longer hangs, and is a finding."""

CALL_SECONDS = 20
LASTING = {"orders": 3, "bills": 2}
"""Topics and their numbers of partitions. Transactions go to these."""
MOVED = {"moved": 2}
"""What the mover makes of `orders`."""
BRIEF = {"brief": 2}
"""Deleted and created again and again."""
LIVELY = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "log.connection.close": False,
    "log_level": 0,
    "metadata.recovery.strategy": "none",  # rebootstrapping, librdkafka 2.16 loses its connection to coordinators
}
"""Settings of clients whose broker is soon back."""

_AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)
"""Errors of a client whose broker is not there."""


class Recorder:
    """The history of a run. Safe for threads."""

    def __init__(
        self,
        address: str,
        seed: int,
        history: ClientHistory | None = None,
        moment: Callable[[], int] | None = None,
    ) -> None:
        """`history` and `moment`: of clients before, which are gone on with."""
        self.address = address
        self.seed = seed
        self.history = history or ClientHistory()
        self.stop = threading.Event()
        self.committed = 0
        """How many transactions."""
        self.aborted = 0
        # Without a lock: in runs of 200 kills one stayed locked although no thread was at a line where it had it. Each
        # step is atomic in the interpreter.
        self._next_moment = moment or partial(next, itertools.count(1))
        self._acknowledged: list[Write] = []
        self._creation = 0
        self._begun: list[int] = []
        self._ended: list[int] = []

    def moment(self) -> int:
        return self._next_moment()

    @property
    def acknowledged(self) -> int:
        """How many records."""
        return len(self._acknowledged)

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, **LIVELY, **{key.replace("_", "."): more[key] for key in more}}

    def add_write(self, write: Write) -> None:
        """Add a write that is over; or at the end one whose outcome is open."""
        self.history.writes.append(write)
        if write.outcome is Outcome.DONE:
            self._acknowledged.append(write)
        if write.partition.topic.startswith("brief#"):
            self._ended.append(1)

    def begin_brief(self) -> str | None:
        """Return the name of `brief` with its number for a write that begins now; None while it does not exist."""
        self._begun.append(1)  # before the look at the number, for `close_brief`
        number = self._creation
        if number:
            return f"brief#{number}"
        self._ended.append(1)
        return None

    def open_brief(self, number: int) -> None:
        self._creation = number

    def close_brief(self) -> bool:
        """Let no write to `brief` begin; return whether none is under way within SECONDS_MAX."""
        self.open_brief(0)
        deadline = time.monotonic() + SECONDS_MAX
        while self._under_way and time.monotonic() < deadline and not self.stop.is_set():
            time.sleep(0.01)
        return not self._under_way

    @property
    def _under_way(self) -> int:
        return len(self._begun) - len(self._ended)


class Client(threading.Thread):
    """A thread with a client. `chance` depends on the seed of the run and the name of the thread."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.recorder = recorder
        self.history = recorder.history
        self.chance = random.Random(f"{recorder.seed} {name}")
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.live()
        except BaseException as error:
            self.failure = error
            raise

    @abstractmethod
    def live(self) -> None:
        """Work until `stop` is set."""

    @property
    def is_stopped(self) -> bool:
        return self.recorder.stop.is_set()

    def finish(self) -> None:
        """Wait for the thread; AssertionError if it hangs or has failed."""
        self.join(SECONDS_MAX)
        assert not self.is_alive(), f"{self.name} hangs"
        if self.failure is not None:
            raise AssertionError(f"{self.name} failed: {self.failure!r}") from self.failure


# --- producers -------------------------------------------------------------------------------------------------------


class Writing:
    """A producer and its writes that are under way."""

    def __init__(self, recorder: Recorder, name: str, **settings: Any) -> None:
        self.name = name
        self._recorder = recorder
        self._is_idempotent = settings.get("enable_idempotence", True)
        self.client = Producer(recorder.settings(acks="all", message_timeout_ms=30_000, **settings))
        self._numbers = itertools.count(1)
        self._pending: dict[bytes, Write] = {}

    def write(
        self, partition: Partition, *, transaction: str = "", source: tuple[Partition, int] | None = None, size: int = 0
    ) -> None:
        """Produce a record; `size`: bytes of padding."""
        number = next(self._numbers)
        value = b"%s:%d:%s" % (self.name.encode(), number, b"." * size)
        began = self._recorder.moment()
        self._pending[value] = Write(
            *(self.name, number, partition, value, began),
            transaction=transaction,
            source=source,
            is_idempotent=self._is_idempotent,
        )
        while True:
            try:
                self.client.produce(
                    partition.topic.partition("#")[0], value, partition=partition.index, on_delivery=self._delivered
                )
                return
            except BufferError:
                self.client.poll(0.1)
            except KafkaException:  # a fatal error, or of the transaction
                self._recorder.add_write(replace(self._pending.pop(value), outcome=Outcome.NOT_DONE))
                raise

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert isinstance(value, bytes)
        write = self._pending.pop(value)
        if error is None:
            offset = message.offset()
            ended = self._recorder.moment()
            write = replace(write, ended=ended, outcome=Outcome.DONE, offset=-1 if offset is None else offset)
        self._recorder.add_write(write)

    @property
    def pending(self) -> int:
        return len(self._pending)

    def give_up(self) -> None:
        """Note what is under way as of unknown outcome."""
        # After a fatal error: librdkafka ends a transaction although no answer says that it began, and Kafka as well
        # answers INVALID_TXN_STATE then.
        with contextlib.suppress(KafkaException):
            self.client.flush(CALL_SECONDS)
        for each in list(self._pending.values()):
            self._recorder.add_write(each)
        self._pending.clear()


class PlainProducer(Client):
    """Writes to all topics, acks=all, with or without idempotence; a fatal error makes it begin again."""

    def __init__(self, recorder: Recorder, name: str, *, is_idempotent: bool) -> None:
        super().__init__(recorder, name)
        self._is_idempotent = is_idempotent

    def live(self) -> None:
        for life in itertools.count():
            if self.is_stopped:
                return
            settings: dict[str, Any] = {"enable_idempotence": self._is_idempotent, "linger_ms": 2}
            if not self._is_idempotent:
                settings["max_in_flight"] = 1
            writing = Writing(self.recorder, f"{self.name}/{life}", **settings)
            lives_on = self.chance.expovariate(1 / 500)
            try:
                for _ in range(int(lives_on)):
                    if self.is_stopped:
                        break
                    self._write(writing)
            except KafkaException:
                pass
            writing.give_up()

    def _write(self, writing: Writing) -> None:
        for _ in range(self.chance.choice((1, 1, 5, 30))):
            topic, count = self.chance.choice(list({**LASTING, **BRIEF}.items()))
            if topic in BRIEF:
                named = self.recorder.begin_brief()
                if named is None:
                    continue
                topic = named
            size = self.chance.choice((0, 10, 300))
            writing.write(Partition(topic, self.chance.randrange(count)), size=size)
        writing.client.poll(0)
        while writing.pending > 300 and not self.is_stopped:
            writing.client.poll(0.05)
        time.sleep(self.chance.uniform(0, 0.02))


class TransactionalProducer(Client):
    """Writes to several partitions in each transaction, and commits or aborts."""

    def live(self) -> None:
        for life in itertools.count():
            if self.is_stopped:
                return
            writing = Writing(
                self.recorder,
                f"{self.name}/{life}",
                transactional_id=self.name,
                transaction_timeout_ms=30_000,
                linger_ms=1,
            )
            try:
                _until_done(partial(writing.client.init_transactions, CALL_SECONDS))
                for number in range(int(self.chance.expovariate(1 / 30)) + 1):
                    if self.is_stopped:
                        break
                    self._transact(writing, f"{self.name}/{life}/{number}")
            except KafkaException:  # this one is fenced, or has a fatal error
                pass
            writing.give_up()

    def _transact(self, writing: Writing, transaction: str) -> None:
        outcomes = self.history.transactions
        outcomes[transaction] = Outcome.NOT_DONE  # until it asks to commit
        writing.client.begin_transaction()
        for _ in range(self.chance.randrange(1, 9)):
            topic, count = self.chance.choice(list(LASTING.items()))
            writing.write(Partition(topic, self.chance.randrange(count)), transaction=transaction)
            time.sleep(self.chance.choice((0, 0, 0, 0.01)))
        if self.chance.random() < 0.25:
            writing.client.flush(self.chance.choice((0, CALL_SECONDS)))
            _until_done(partial(writing.client.abort_transaction, CALL_SECONDS))
            self.recorder.aborted += 1
            return
        end_transaction(writing, transaction, self.recorder)


def end_transaction(writing: Writing, transaction: str, recorder: Recorder) -> bool:
    """Commit; return whether it is committed, False if it was aborted. KafkaException if neither is known."""
    outcomes = recorder.history.transactions
    outcomes[transaction] = Outcome.UNKNOWN
    try:
        _until_done(partial(writing.client.commit_transaction, CALL_SECONDS))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        _until_done(partial(writing.client.abort_transaction, CALL_SECONDS))
        outcomes[transaction] = Outcome.NOT_DONE
        return False
    outcomes[transaction] = Outcome.DONE
    recorder.committed += 1
    return True


def _until_done(call: Callable[[], object]) -> None:
    """Repeat a call that can be repeated; KafkaException of another kind, or after a long time."""
    deadline = time.monotonic() + SECONDS_MAX / 2
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


# --- consumers -------------------------------------------------------------------------------------------------------


def recorded(recorder: Recorder, session: str, message: Message | None, *, is_committed: bool) -> bool:
    """Add a message to the history; return whether there is one. An error that ends its reading is a finding."""
    if message is None:
        return False
    error = message.error()
    if error is not None:
        assert error.retriable() or error.code() in _AWAY, f"{session}: {error}"
        return False
    topic, index, offset, value = message.topic(), message.partition(), message.offset(), message.value()
    assert topic is not None and index is not None and offset is not None and isinstance(value, bytes)
    recorder.history.reads.append(Read(session, Partition(topic, index), offset, value, is_committed))
    return True


class Follower(Client):
    """Reads all records of lasting topics from the first one on, and follows."""

    def __init__(self, recorder: Recorder, name: str, *, is_committed: bool) -> None:
        super().__init__(recorder, name)
        self._is_committed = is_committed

    def live(self) -> None:
        isolation = "read_committed" if self._is_committed else "read_uncommitted"
        client = Consumer(
            self.recorder.settings(
                group_id="none", isolation_level=isolation, enable_auto_commit=False, auto_offset_reset="error"
            )
        )
        with closing(client):
            places = [(topic, index) for topic, count in (LASTING | MOVED).items() for index in range(count)]
            client.assign([TopicPartition(*each, 0) for each in places])
            self.history.starts += [Start(self.name, Partition(*each), 0) for each in places]
            while not self.is_stopped:
                for each in client.consume(200, 0.1):
                    recorded(self.recorder, self.name, each, is_committed=self._is_committed)


class GroupMember(Client):
    """A consumer of a group that reads lasting topics, commits what it has read, and leaves and joins by chance."""

    def __init__(self, recorder: Recorder, name: str, group: str, protocol: str = "classic") -> None:
        super().__init__(recorder, name)
        self._group = group
        self._protocol = protocol
        self._numbers = itertools.count(1)
        self._sessions: dict[Partition, str] = {}
        self._is_committed = False
        self._positions: dict[Partition, int] = {}
        self._is_closing = False

    def live(self) -> None:
        while not self.is_stopped:
            self._is_closing = False
            self._is_committed = self.chance.random() < 0.5
            isolation = "read_committed" if self._is_committed else "read_uncommitted"
            settings: dict[str, Any] = {"group_protocol": self._protocol, "isolation_level": isolation}
            if self._protocol == "classic":
                settings |= {"session_timeout_ms": 4000, "heartbeat_interval_ms": 300}
                settings["partition_assignment_strategy"] = "range"
            client = Consumer(
                self.recorder.settings(
                    group_id=self._group, enable_auto_commit=False, auto_offset_reset="error", **settings
                )
            )
            with closing(client):
                client.subscribe(list(LASTING), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
                ends = time.monotonic() + self.chance.expovariate(1 / 5)
                while time.monotonic() < ends and not self.is_stopped:
                    for each in client.consume(self.chance.choice((1, 20, 100)), 0.1):
                        self._take(each)
                    if self.chance.random() < 0.3:
                        self._commit(client)
                # librdkafka does not wait for a callback beyond the session timeout when it closes: a call of the
                # client in it then never returns. So nothing in the callback waits for the broker from now on.
                self._is_closing = True
                if self.chance.random() < 0.5:
                    self._commit(client)

    def _take(self, message: Message) -> None:
        read = Partition(message.topic() or "", message.partition() or 0)
        session = self._sessions.get(read)
        if session is not None and recorded(self.recorder, session, message, is_committed=self._is_committed):
            self._positions[read] = (message.offset() or 0) + 1

    def _assigned(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Look up where to begin. With the protocol `consumer`, these come to those that it has."""
        found = None if self._is_closing else look_up(self.recorder, client, self._group, partitions)
        begun = {
            each: max(offset, 0) for each, offset in (found or {}).items()
        }  # else it joins again when it is closed
        if self._protocol == "classic":
            self._positions, self._sessions = {}, {}
        session = f"{self.name}/{next(self._numbers)}"
        self._positions |= begun
        self._sessions |= dict.fromkeys(begun, session)
        self.history.starts += [Start(session, each, offset) for each, offset in begun.items()]
        places = [TopicPartition(each.topic, each.index, at) for each, at in begun.items()]
        if self._protocol == "classic":
            client.assign(places)
        else:
            client.incremental_assign(places)

    def _revoked(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._is_closing and self.chance.random() < 0.5:
            self._commit(client)
        self._lost(client, partitions)

    def _lost(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._positions.pop(Partition(each.topic, each.partition), None)
            self._sessions.pop(Partition(each.topic, each.partition), None)
        if self._protocol == "classic":
            client.unassign()
        else:
            client.incremental_unassign(partitions)

    def _commit(self, client: Consumer) -> None:
        if not self._positions:
            return
        began = self.recorder.moment()
        offsets = [TopicPartition(each.topic, each.index, offset) for each, offset in self._positions.items()]
        try:
            answered = client.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # of unknown outcome, and so of no use to the check
        ended = self.recorder.moment()
        for each in answered or ():
            if each.error is None:
                place = Partition(each.topic, each.partition)
                self.history.commits.append(Commit(self._group, place, each.offset, began, ended, Outcome.DONE))


def look_up(
    recorder: Recorder, client: Consumer, group: str, partitions: Sequence[TopicPartition]
) -> dict[Partition, int] | None:
    """Return the committed offsets of a group, -1 where there is none; None if the broker does not answer for long."""
    deadline = time.monotonic() + SECONDS_MAX / 2
    while time.monotonic() < deadline:
        began = recorder.moment()
        try:
            answered = client.committed([TopicPartition(each.topic, each.partition) for each in partitions], 5)
        except KafkaException:
            continue
        if any(each.error is not None for each in answered):
            continue
        ended = recorder.moment()
        found = {Partition(each.topic, each.partition): max(each.offset, -1) for each in answered}
        recorder.history.look_ups += [LookUp(group, each, offset, began, ended) for each, offset in found.items()]
        return found
    return None


class Mover(Client):
    """Reads `orders`, and writes a record to `moved` for each, in transactions with its offsets: exactly once."""

    GROUP = "movers"

    def live(self) -> None:
        for life in itertools.count():
            if self.is_stopped:
                return
            try:
                self._move(life)
            except KafkaException:  # begins again where the last transaction that was committed ended
                continue

    def _move(self, life: int) -> None:
        name = f"{self.name}/{life}"
        writing = Writing(self.recorder, name, transactional_id=self.name, transaction_timeout_ms=30_000)
        client = Consumer(
            self.recorder.settings(
                group_id=self.GROUP,
                enable_auto_commit=False,
                auto_offset_reset="error",
                isolation_level="read_committed",
            )
        )
        with closing(client):
            try:
                _until_done(partial(writing.client.init_transactions, CALL_SECONDS))
                partitions = [TopicPartition("orders", index) for index in range(LASTING["orders"])]
                found = look_up(self.recorder, client, self.GROUP, partitions)
                if found is None:
                    return
                positions = {each: max(offset, 0) for each, offset in found.items()}
                client.assign([TopicPartition(each.topic, each.index, at) for each, at in positions.items()])
                self.history.starts += [Start(name, each, at) for each, at in positions.items()]
                for number in itertools.count():
                    if self.is_stopped or not self._move_some(client, writing, f"{name}/{number}", name):
                        return
            finally:
                writing.give_up()

    def _move_some(self, client: Consumer, writing: Writing, transaction: str, session: str) -> bool:
        """Move what is there in a transaction; return whether it was committed."""
        positions: dict[Partition, int] = {}
        found = [each for each in client.consume(50, 0.2) if each.error() is None]
        if not found:
            return True
        self.history.transactions[transaction] = Outcome.NOT_DONE
        writing.client.begin_transaction()
        for each in found:
            recorded(self.recorder, session, each, is_committed=True)
            read_from, offset = Partition(each.topic() or "", each.partition() or 0), each.offset() or 0
            positions[read_from] = offset + 1
            to = Partition("moved", read_from.index % MOVED["moved"])
            writing.write(to, transaction=transaction, source=(read_from, offset))
        offsets = [TopicPartition(each.topic, each.index, offset) for each, offset in positions.items()]
        began = self.recorder.moment()
        try:
            group = client.consumer_group_metadata()
            _until_done(partial(writing.client.send_offsets_to_transaction, offsets, group, CALL_SECONDS))
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                _until_done(partial(writing.client.abort_transaction, CALL_SECONDS))
            raise
        if not end_transaction(writing, transaction, self.recorder):
            return False
        ended = self.recorder.moment()
        self.history.commits += [
            Commit(self.GROUP, each, offset, began, ended, Outcome.DONE) for each, offset in positions.items()
        ]
        return True


# --- a mount in the same process -------------------------------------------------------------------------------------


class MountAppender(Client):
    """Appends lines to lasting topics through the files of a mount."""

    def __init__(self, recorder: Recorder, name: str, mount: Path) -> None:
        super().__init__(recorder, name)
        self._mount = mount

    def live(self) -> None:
        for life in itertools.count():
            if self.is_stopped:
                return
            topic, count = self.chance.choice(list(LASTING.items()))
            partition = Partition(topic, self.chance.randrange(count))
            writes: list[Write] = []
            try:
                with open(self._mount / str(partition) / "append", "ab", buffering=0) as file:
                    for number in range(self.chance.randrange(1, 20)):
                        value = b"%s/%d:%d" % (self.name.encode(), life, number)
                        name = f"{self.name}/{life}"
                        writes.append(Write(name, number, partition, value, self.recorder.moment()))
                        file.write(value + b"\n")
            except OSError:  # the mount is away
                time.sleep(0.02)
            else:
                ended = self.recorder.moment()
                writes = [replace(each, ended=ended, outcome=Outcome.DONE) for each in writes]
            for each in writes:
                self.recorder.add_write(each)
            time.sleep(self.chance.uniform(0, 0.02))


class MountReader(Client):
    """Reads lasting topics through the files of a mount, again and again."""

    def __init__(self, recorder: Recorder, name: str, mount: Path) -> None:
        super().__init__(recorder, name)
        self._mount = mount

    def live(self) -> None:
        while not self.is_stopped:
            topic, count = self.chance.choice(list(LASTING.items()))
            partition = Partition(topic, self.chance.randrange(count))
            lines: list[bytes] = []
            try:
                with open(self._mount / str(partition) / "records.ndjson", "rb") as file:
                    lines.extend(file)
            except OSError:  # the mount is away
                time.sleep(0.02)
            session = f"{self.name}, {self.recorder.moment()}"
            for line in lines:
                if line.endswith(b"\n"):
                    record = json.loads(line)
                    self.history.reads.append(Read(session, partition, record["offset"], record["value"].encode()))
            self.recorder.stop.wait(0.2)


# --- topics ----------------------------------------------------------------------------------------------------------


class TopicMaker(Client):
    """Creates `brief`, reads all of it after a while, and deletes it; again and again."""

    def live(self) -> None:
        admin = AdminClient(self.recorder.settings())
        for number in itertools.count(1):
            if not self._until(lambda: create(admin, BRIEF)):
                return
            self.recorder.open_brief(number)
            self.recorder.stop.wait(self.chance.uniform(0.5, 4))
            is_quiet = self.recorder.close_brief()
            if self.is_stopped or not is_quiet:
                return
            for index in range(BRIEF["brief"]):
                full_read(self.recorder, Partition("brief", index), f"#{number}", is_committed=False)
            if not self._until(lambda: delete(admin, BRIEF)):
                return

    def _until(self, call: Callable[[], bool]) -> bool:
        """Repeat until it is done; return False if `stop` was set before."""
        while not self.is_stopped:
            if call():
                return True
            time.sleep(0.05)
        return False


def create(admin: AdminClient, topics: dict[str, int]) -> bool:
    """Create topics; return whether all are there."""
    futures = admin.create_topics([NewTopic(name, count) for name, count in topics.items()], request_timeout=5)
    return all(_ends_with(each, KafkaError.TOPIC_ALREADY_EXISTS) for each in futures.values())


def delete(admin: AdminClient, topics: dict[str, int]) -> bool:
    """Delete topics; return whether none is there."""
    futures = admin.delete_topics(list(topics), request_timeout=5)
    return all(_ends_with(each, KafkaError.UNKNOWN_TOPIC_OR_PART) for each in futures.values())


def _ends_with(future: Any, code: int) -> bool:
    """Return whether a result is there, or the error `code`: of a request that was repeated."""
    try:
        future.result(SECONDS_MAX)
    except KafkaException as error:
        return bool(error.args[0].code() == code)
    return True


def full_read(recorder: Recorder, partition: Partition, suffix: str = "", *, is_committed: bool) -> None:
    """Read a partition to its end; `suffix`: which creation of the topic this is."""
    named = Partition(partition.topic + suffix, partition.index)
    began = recorder.moment()
    session = f"all of {named}, {began}"
    isolation = "read_committed" if is_committed else "read_uncommitted"
    settings = recorder.settings(
        group_id="none",
        isolation_level=isolation,
        enable_partition_eof=True,
        enable_auto_commit=False,
        fetch_wait_max_ms=10,
    )
    recorder.history.starts.append(Start(session, named, 0))
    deadline = time.monotonic() + SECONDS_MAX
    with closing(Consumer({**settings, "auto.offset.reset": "error"})) as client:
        client.assign([TopicPartition(partition.topic, partition.index, 0)])
        while time.monotonic() < deadline:
            for each in client.consume(500, 0.1):
                error = each.error()
                if error is None:
                    value, offset = each.value(), each.offset()
                    assert isinstance(value, bytes) and offset is not None
                    recorder.history.reads.append(Read(session, named, offset, value, is_committed))
                elif error.code() == KafkaError._PARTITION_EOF:
                    end = each.offset()
                    assert end is not None
                    recorder.history.full_reads.append(FullRead(session, named, end, began, is_committed))
                    return
                elif not error.retriable() and error.code() not in _AWAY:
                    raise AssertionError(f"{session}: {error}")
    raise AssertionError(f"{session}: no end after {SECONDS_MAX} s")


# --- all of them -----------------------------------------------------------------------------------------------------


def crew(recorder: Recorder, protocols: Sequence[str], mount: Path | None = None) -> list[Client]:
    """Return the clients of a run; `protocols`: of the consumer groups, one group each; `mount`: used as well."""
    members = [
        GroupMember(recorder, f"{protocol}-{number}", f"readers-{protocol}", protocol)
        for protocol in protocols
        for number in range(3 if len(protocols) == 1 else 2)
    ]
    through_files: list[Client] = []
    if mount is not None:
        through_files = [MountAppender(recorder, "lines", mount), MountReader(recorder, "files", mount)]
    return [
        *through_files,
        PlainProducer(recorder, "plain", is_idempotent=False),
        PlainProducer(recorder, "idempotent", is_idempotent=True),
        TransactionalProducer(recorder, "tx-1"),
        TransactionalProducer(recorder, "tx-2"),
        Mover(recorder, "mover"),
        Follower(recorder, "follower", is_committed=False),
        Follower(recorder, "committed-follower", is_committed=True),
        *members,
        TopicMaker(recorder, "maker"),
    ]


def read_everything(recorder: Recorder, groups: Sequence[str]) -> None:
    """End what is left of transactions, read all partitions to their ends, and look up all committed offsets."""
    for name in ("tx-1", "tx-2", "mover"):
        _until_done(partial(Producer(recorder.settings(transactional_id=name)).init_transactions, CALL_SECONDS))
    for partition in lasting_partitions():
        for is_committed in (False, True):
            full_read(recorder, partition, is_committed=is_committed)
    for group in groups:
        with closing(Consumer(recorder.settings(group_id=group))) as client:
            places = [TopicPartition(each.topic, each.index) for each in lasting_partitions()]
            assert look_up(recorder, client, group, places) is not None, f"no committed offsets of {group}"


def lasting_partitions() -> Iterator[Partition]:
    return (Partition(topic, index) for topic, count in (LASTING | MOVED).items() for index in range(count))
