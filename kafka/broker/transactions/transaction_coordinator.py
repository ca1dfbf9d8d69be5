"""The transaction coordinator of a broker: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, time limits.

The end of a transaction has two steps. PrepareCommit or PrepareAbort is the decision, which is on disk before the first
partition gets its marker; from then on only this end is possible. CompleteCommit or CompleteAbort follows when the
markers are on disk in all partitions. A coordinator that starts completes what is prepared. EndTxn is answered after
the second step, or after the first one if a partition takes no marker; then that is tried again until it does.

What a client has been answered survives a crash, and with `acks.all=disk` a power loss: otherwise a transaction could
be committed in one partition and aborted in another, or stay open. Follows Kafka's TransactionCoordinator and
TransactionStateManager.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import trio

from offsetfs.kafka.broker.coordinator_log import ProducerEpoch
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.groups.group_coordinator import GroupCoordinator
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import IDS_SINCE_TXN_OFFSET_COMMIT, unknown_topic
from offsetfs.kafka.broker.transactions.transaction import (
    BUMPS_EPOCHS,
    ProducerIds,
    TransactionError,
    check_contains,
    completed,
    ended,
    ended_with_next_epoch,
    extended,
    fenced,
    initialized,
)
from offsetfs.kafka.broker.transactions.transaction_log import TransactionLog
from offsetfs.kafka.broker.transactions.transaction_markers import Marker, TransactionMarkers
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import METADATA_TOPIC, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import NO_PRODUCER, Transaction, TransactionChange, TransactionState
from offsetfs.storage.errors import StorageError

_log = logging.getLogger(__name__)

COMPLETION_RETRY_S = 1.0
"""The pause before markers that could not be written are tried again."""

_FENCED_SINCE = 2  # AddPartitionsToTxn, AddOffsetsToTxn, EndTxn
_INIT_FENCED_SINCE = 4  # InitProducerId
"""Clients of these versions know PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH (KIP-588)."""
_BATCHED_SINCE = 4  # AddPartitionsToTxn of brokers, of several transactions (KIP-890)
_OFFSETS_ABORTABLE_SINCE = 4  # TxnOffsetCommit
_ADDS_OFFSETS_SINCE = 5  # without AddOffsetsToTxn: a client with transaction.version 2
_BUMPS_EPOCHS_SINCE = 5  # EndTxn of a client with transaction.version 2
_Name = tuple[str, int]
"""Topic and number of a partition, as a request names it."""
_SETTLED = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class TransactionCoordinator:
    """The transactions of one log directory."""

    def __init__(
        self, directory: LogDirectory, groups: GroupCoordinator, settings: ServerSettings, syncs: LogSync
    ) -> None:
        self._directory = directory
        self._groups = groups
        self._settings = settings
        self._log = TransactionLog(directory, settings.transaction_state_log_num_partitions, syncs)
        self.markers = TransactionMarkers(directory, syncs)
        self._ids = ProducerIds()
        self._completing: dict[str, trio.Event] = {}
        self._reported: dict[str, str] = {}
        self._missing: dict[str, tuple[Transaction, set[TopicPartition]]] = {}
        """The partitions that have not got the marker of an end; it counts for this very object only."""
        self._storing: Counter[str] = Counter()
        """The transactional ids with a state that may not be on disk yet."""
        self._appending: Counter[int] = Counter()
        self._appended = trio.Event()

    # --- look-ups ----------------------------------------------------------------------------------------------------

    async def find(self, transactional_id: str) -> Transaction | None:
        """Return the state of a transactional id; TransactionError while it cannot be read."""
        await self._log.current(transactional_id)
        return self._log.find(transactional_id)

    async def all(self) -> list[tuple[str, Transaction]]:
        """Return all transactional ids that can be read, sorted."""
        await self._log.current_all()
        return sorted(self._log.states(), key=lambda entry: entry[0])

    # --- InitProducerId ----------------------------------------------------------------------------------------------

    async def init_producer_id(self, request: m.InitProducerIdRequest, version: int) -> m.InitProducerIdResponse:
        """Return an id and an epoch: for a transactional id its own, with the next epoch."""
        transactional_id = request.transactional_id
        try:
            if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_PRODUCER):
                raise TransactionError(ErrorCode.INVALID_REQUEST)
            if transactional_id is None:
                return m.InitProducerIdResponse(producer_id=self._ids.next(), producer_epoch=0)
            self._check_id(transactional_id)
            if not 0 < request.transaction_timeout_ms <= self._settings.transaction_max_timeout_ms:
                raise TransactionError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            asked = None
            if request.producer_id != NO_PRODUCER:
                asked = ProducerEpoch(request.producer_id, request.producer_epoch)
            producer = await self._initialize(transactional_id, asked, request.transaction_timeout_ms)
        except TransactionError as error:
            code = _known(error.code, version, _INIT_FENCED_SINCE)
            return m.InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER, producer_epoch=NO_PRODUCER)
        return m.InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)

    async def _initialize(self, transactional_id: str, asked: ProducerEpoch | None, timeout_ms: int) -> Transaction:
        new_id = self._ids.next()

        def change(known: Transaction | None) -> Transaction:
            return initialized(known, asked, timeout_ms, new_id, self._directory.clock.now_ms())

        changed = await self._change(transactional_id, change)
        assert changed is not None
        if changed.state.is_ending:  # the transaction of an earlier instance is aborted first
            await self._complete(transactional_id)
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return changed

    # --- AddPartitionsToTxn, AddOffsetsToTxn -------------------------------------------------------------------------

    async def add_partitions(self, request: m.AddPartitionsToTxnRequest, version: int) -> m.AddPartitionsToTxnResponse:
        """Add partitions to transactions: of one producer, or of several that another broker asks for."""
        if version < _BATCHED_SINCE:
            asked = m.AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            return m.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await self._add(asked, version, Slices()))
        results, slices = list[m.AddPartitionsToTxnResult](), Slices()
        for transaction in request.transactions:
            await slices.step()
            results.append(
                m.AddPartitionsToTxnResult(transaction.transactional_id, await self._add(transaction, version, slices))
            )
        return m.AddPartitionsToTxnResponse(results_by_transaction=results)

    async def _add(
        self, asked: m.AddPartitionsToTxnTransaction, version: int, slices: Slices
    ) -> list[m.AddPartitionsToTxnTopicResult]:
        partitions, codes = dict[_Name, TopicPartition](), dict[_Name, ErrorCode]()
        has_unknown = False
        for topic in asked.topics:
            for index in topic.partitions:
                await slices.step()
                if (topic.name, index) not in codes:
                    name = self.partition(topic.name, index)
                    if name is not None:
                        partitions[topic.name, index] = name
                    has_unknown |= name is None
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is None else ErrorCode.OPERATION_NOT_ATTEMPTED
                    codes[topic.name, index] = code
        if not has_unknown:
            wanted = set(partitions.values())
            producer = ProducerEpoch(asked.producer_id, asked.producer_epoch)
            try:
                self._check_id(asked.transactional_id)
                if asked.verify_only:
                    codes = await self._verified(asked.transactional_id, producer, partitions, slices)
                else:
                    client_version = BUMPS_EPOCHS if version >= _BATCHED_SINCE else 0
                    await self.extend(asked.transactional_id, producer, wanted, client_version=client_version)
                    codes = dict.fromkeys(codes, ErrorCode.NONE)
            except TransactionError as error:
                codes = dict.fromkeys(codes, _known(error.code, version, _FENCED_SINCE))
        results = list[m.AddPartitionsToTxnTopicResult]()
        for topic in asked.topics:
            if not topic.partitions and (version >= _BATCHED_SINCE or has_unknown):
                continue
            result = m.AddPartitionsToTxnTopicResult(topic.name)
            results.append(result)
            for index in topic.partitions:
                await slices.step()
                code = codes[topic.name, index]
                result.results_by_partition.append(m.AddPartitionsToTxnPartitionResult(index, code))
        return results

    async def _verified(
        self, transactional_id: str, producer: ProducerEpoch, partitions: dict[_Name, TopicPartition], slices: Slices
    ) -> dict[_Name, ErrorCode]:
        await self._log.current(transactional_id)
        codes = dict[_Name, ErrorCode]()
        for name, partition in partitions.items():
            await slices.step()
            codes[name] = _abortable(self._contained(transactional_id, producer, partition))
        return codes

    def partition(self, topic: str, index: int) -> TopicPartition | None:
        """Return a partition that can be in a transaction; None if the name has no partition."""
        name = TopicPartition.valid_or_none(topic, index)
        if name is None:
            return None
        # Kafka's metadata does not list the log of the cluster; it takes no marker, and no end would be complete.
        return name if name.topic != METADATA_TOPIC and self._directory.has(name) else None

    async def extend(
        self, transactional_id: str, producer: ProducerEpoch, partitions: set[TopicPartition], *, client_version: int
    ) -> None:
        """Add partitions to the transaction of a producer; TransactionError. Durable on return.

        `client_version`: the `transaction.version` of the client.
        """
        self._check_id(transactional_id)

        def change(known: Transaction | None) -> Transaction | None:
            return extended(known, producer, partitions, self._directory.clock.now_ms(), client_version=client_version)

        await self._change(transactional_id, change)

    async def add_offsets(self, request: m.AddOffsetsToTxnRequest, version: int) -> m.AddOffsetsToTxnResponse:
        """Add the offsets of a group to a transaction: the partition of `__consumer_offsets` that has them."""
        producer = ProducerEpoch(request.producer_id, request.producer_epoch)
        try:
            self._check_id(request.transactional_id)
            home = await self._groups.table.home(request.group_id)
            await self.extend(request.transactional_id, producer, {home}, client_version=0)
        except TransactionError as error:
            return m.AddOffsetsToTxnResponse(error_code=_known(error.code, version, _FENCED_SINCE))
        except GroupError as error:
            return m.AddOffsetsToTxnResponse(error_code=error.code)
        return m.AddOffsetsToTxnResponse()

    # --- TxnOffsetCommit ---------------------------------------------------------------------------------------------

    async def commit_offsets(self, request: m.TxnOffsetCommitRequest, version: int) -> m.TxnOffsetCommitResponse:
        """Store offsets of a group that are committed with the transaction; on disk when answered."""
        producer = ProducerEpoch(request.producer_id, request.producer_epoch)
        if not any(topic.name or version < IDS_SINCE_TXN_OFFSET_COMMIT for topic in request.topics):
            return await self._failed_offsets(request, version, ErrorCode.NONE)
        try:
            if not request.group_id:
                raise GroupError(ErrorCode.INVALID_GROUP_ID)
            self._check_id(request.transactional_id)
            home = await self._groups.table.home(request.group_id)
            await self._log.current(request.transactional_id)
            if version >= _ADDS_OFFSETS_SINCE:
                await self.extend(request.transactional_id, producer, {home}, client_version=BUMPS_EPOCHS)
            code = self.verify(request.transactional_id, producer, home)
            if version >= _OFFSETS_ABORTABLE_SINCE:
                code = _abortable(code)
            if code != ErrorCode.NONE:
                raise TransactionError(code)
            with self.appending(producer):
                return await self._groups.offsets.commit_in_transaction(request, version, producer)
        except (TransactionError, GroupError) as error:
            return await self._failed_offsets(request, version, error.code)

    async def _failed_offsets(
        self, request: m.TxnOffsetCommitRequest, version: int, code: ErrorCode
    ) -> m.TxnOffsetCommitResponse:
        response, slices = m.TxnOffsetCommitResponse(), Slices()
        for topic in (topic for topic in request.topics if topic.partitions):
            unknown = unknown_topic(topic.name, has_ids=version >= IDS_SINCE_TXN_OFFSET_COMMIT)
            result = m.TxnOffsetCommitResponseTopic(topic.name, topic.topic_id)
            response.topics.append(result)
            for partition in topic.partitions:
                await slices.step()
                result_code = unknown if self.partition(topic.name, partition.partition_index) is None else code
                result.partitions.append(m.TxnOffsetCommitResponsePartition(partition.partition_index, result_code))
        return response

    # --- appends of clients ------------------------------------------------------------------------------------------

    async def current(self, transactional_id: str) -> None:
        """Read what is stored of a transactional id; TransactionError while it cannot be read."""
        await self._log.current(transactional_id)

    def verify(self, transactional_id: str, producer: ProducerEpoch, partition: TopicPartition) -> ErrorCode:
        """Return NONE if a partition is in the ongoing transaction of a producer. Call `current` before."""
        code = self._contained(transactional_id, producer, partition)
        # As AddPartitionsToTxnManager: old clients end at PRODUCER_FENCED.
        return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code

    def _contained(self, transactional_id: str, producer: ProducerEpoch, partition: TopicPartition) -> ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        try:
            check_contains(self._log.find(transactional_id), producer, partition)
        except TransactionError as error:
            return error.code
        return ErrorCode.NONE

    def contains(self, transactional_id: str, producer: ProducerEpoch, partition: TopicPartition) -> bool:
        """Return whether a partition is in the ongoing transaction of a producer, also after a power loss."""
        is_stored = transactional_id not in self._storing
        return is_stored and self.verify(transactional_id, producer, partition) == ErrorCode.NONE

    @contextlib.contextmanager
    def appending(self, producer: ProducerEpoch) -> Iterator[None]:
        """Let the markers of a producer wait until the block is left. Call `verify` right before.

        Records behind the marker would be of a transaction that nothing ends.
        """
        self._appending[producer.producer_id] += 1
        try:
            yield
        finally:
            self._appending[producer.producer_id] -= 1
            if not self._appending[producer.producer_id]:
                del self._appending[producer.producer_id]
                self._appended.set()  # several ends may wait, and each looks for its own producer
                self._appended = trio.Event()

    # --- EndTxn ------------------------------------------------------------------------------------------------------

    async def end(self, request: m.EndTxnRequest, version: int) -> m.EndTxnResponse:
        """Commit or abort a transaction."""
        transactional_id, is_commit = request.transactional_id, request.committed
        producer = ProducerEpoch(request.producer_id, request.producer_epoch)
        following = ProducerEpoch(NO_PRODUCER, NO_PRODUCER)

        def change(known: Transaction | None) -> Transaction | None:
            if version < _BUMPS_EPOCHS_SINCE:
                return ended(known, producer, self._directory.clock.now_ms(), is_commit=is_commit)
            nonlocal following
            changed = ended_with_next_epoch(
                known, producer, self._directory.clock.now_ms(), is_commit=is_commit, new_producer_id=self._ids.next()
            )
            done = known if changed is None else completed(changed, self._directory.clock.now_ms())
            assert done is not None
            following = ProducerEpoch(done.producer_id, done.epoch)
            return changed

        try:
            self._check_id(transactional_id)
            if await self._change(transactional_id, change) is not None:
                await self._complete(transactional_id)
        except TransactionError as error:
            code = _known(error.code, version, _FENCED_SINCE)
            return m.EndTxnResponse(error_code=code, producer_id=NO_PRODUCER, producer_epoch=NO_PRODUCER)
        return m.EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.epoch)

    async def _complete(self, transactional_id: str) -> None:
        """Write the markers of a prepared end, then its completion. What fails is in the log, and tried again later."""
        running = self._completing.get(transactional_id)
        if running is not None:
            await running.wait()
            return
        self._completing[transactional_id] = done = trio.Event()
        try:
            with trio.CancelScope(shield=True):
                await self._write_markers(transactional_id)
        except (TransactionError, StorageError, OSError, MemoryError) as error:
            if self._reported.get(transactional_id) != str(error):
                self._reported[transactional_id] = str(error)
                _log.error(
                    "the end of a transaction of %s is not in all partitions: %s; tried again every %.0f s",
                    transactional_id, error, COMPLETION_RETRY_S,
                )  # fmt: skip
        else:
            self._reported.pop(transactional_id, None)
        finally:
            del self._completing[transactional_id]
            done.set()

    async def _write_markers(self, transactional_id: str) -> None:
        transaction = self._log.find(transactional_id)
        if transaction is None or not transaction.state.is_ending:
            return
        while self._appending[transaction.producer_id]:
            await self._appended.wait()
        # Partitions must not differ after a power loss. A decision that was read may not be on disk yet.
        await self._log.sync(transactional_id)
        is_commit = transaction.state == TransactionState.PREPARE_COMMIT
        epoch = self._log.epoch_of(transactional_id)
        marker = Marker(transaction.producer_id, transaction.epoch, is_commit, epoch)
        # A partition that takes no marker for a day would otherwise let all others grow with each attempt.
        tried, missing = self._missing.get(transactional_id, (None, set[TopicPartition]()))
        if tried is not transaction:
            missing = set(transaction.partitions)
            self._missing[transactional_id] = transaction, missing
        await self.markers.write_all(marker, missing)

        def make() -> list[TransactionChange]:
            latest = self._log.find(transactional_id)
            if latest is None or not latest.state.is_ending:
                return []
            return [TransactionChange(transactional_id, completed(latest, self._directory.clock.now_ms()))]

        await self._log.append(transactional_id, make)
        del self._missing[transactional_id]

    # --- background --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Load the transactions; then complete, abort and delete what is due, until cancelled.

        On a read-only directory it ends after the load: the broker that writes does that.
        """
        await self._log.load()
        if self._directory.read_only:
            return
        settings = self._settings
        abort_s = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
        remove_s = settings.transaction_remove_expired_transaction_cleanup_interval_ms / 1000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_periodically, COMPLETION_RETRY_S, self.complete_prepared)
            nursery.start_soon(_periodically, abort_s, self.abort_timed_out)
            nursery.start_soon(_periodically, remove_s, self.remove_expired)

    async def complete_prepared(self) -> None:
        """Complete the ends that a crash, or an error, has interrupted."""
        with contextlib.suppress(TransactionError):  # a partition that could not be read, and no client may ask for it
            await self._log.current_all()
        for transactional_id in self._log.ending():
            if transactional_id not in self._completing:
                await self._complete(transactional_id)

    async def abort_timed_out(self) -> None:
        """Abort the transactions that have taken longer than their producer has asked for, and fence the producer."""
        for transactional_id, transaction in list(self._log.states()):
            if self._is_timed_out(transaction):
                with contextlib.suppress(TransactionError):  # reported; tried again at the next check
                    if await self._change(transactional_id, self._timed_out) is not None:
                        _log.info("the transaction of %s has timed out and is aborted", transactional_id)
                        await self._complete(transactional_id)

    def _is_timed_out(self, transaction: Transaction) -> bool:
        now_ms = self._directory.clock.now_ms()
        return (
            transaction.state == TransactionState.ONGOING and transaction.started_ms + transaction.timeout_ms < now_ms
        )

    def _timed_out(self, transaction: Transaction | None) -> Transaction | None:
        if transaction is None or not self._is_timed_out(transaction):
            return None
        return fenced(transaction, self._directory.clock.now_ms())

    async def remove_expired(self) -> None:
        """Delete the transactional ids that have not been used for `transactional.id.expiration.ms`."""
        for transactional_id, transaction in list(self._log.states()):
            if self._is_expired(transaction):
                with contextlib.suppress(TransactionError):
                    await self._append(transactional_id, partial(self._expired, transactional_id))

    def _is_expired(self, transaction: Transaction) -> bool:
        now = self._directory.cautious_clock.now_ms()
        return (
            transaction.state in _SETTLED
            and transaction.updated_ms + self._settings.transactional_id_expiration_ms <= now
        )

    def _expired(self, transactional_id: str) -> list[TransactionChange]:
        transaction = self._log.find(transactional_id)
        is_expired = transaction is not None and self._is_expired(transaction)
        return [TransactionChange(transactional_id, None)] if is_expired else []

    # --- changes -----------------------------------------------------------------------------------------------------

    def _check_id(self, transactional_id: str) -> None:
        if not transactional_id:
            raise TransactionError(ErrorCode.INVALID_REQUEST)
        if self._directory.read_only:
            raise TransactionError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    async def _change(
        self, transactional_id: str, change: Callable[[Transaction | None], Transaction | None]
    ) -> Transaction | None:
        """Store the state that `change` returns, and return it; None if it changes nothing. Durable on return."""
        changed: Transaction | None = None

        def make() -> list[TransactionChange]:
            nonlocal changed
            changed = change(self._log.find(transactional_id))
            return [] if changed is None else [TransactionChange(transactional_id, changed)]

        await self._log.current(transactional_id)
        await self._append(transactional_id, make)
        return changed

    async def _append(self, transactional_id: str, make: Callable[[], list[TransactionChange]]) -> None:
        self._storing[transactional_id] += 1
        try:
            await self._log.append(transactional_id, make)
            await self._log.sync(transactional_id)
        except (StorageError, OSError, MemoryError) as error:
            _log.error("the transaction of %s could not be stored: %s", transactional_id, error)
            raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        finally:
            self._storing[transactional_id] -= 1
            if not self._storing[transactional_id]:
                del self._storing[transactional_id]


async def _periodically(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await work()
        except Exception:  # a bug: it must not end the broker
            _log.exception("a check of the transactions failed")
        await trio.sleep(seconds)


def _known(code: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Return a code that clients of this version know."""
    if code == ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _abortable(code: ErrorCode) -> ErrorCode:
    return ErrorCode.TRANSACTION_ABORTABLE if code == ErrorCode.INVALID_TXN_STATE else code
