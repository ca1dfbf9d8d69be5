"""Administration of transactions: DescribeTransactions, ListTransactions, WriteTxnMarkers.

Follows TransactionCoordinator.handleDescribeTransactions, TransactionStateManager.listTransactionStates and
KafkaApis.handleWriteTxnMarkersRequest (KIP-664).
"""

from __future__ import annotations

import logging

from offsetfs.kafka.broker.error_codes import code_of
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.groups.topic_patterns import TopicPatterns
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.transactions.transaction import TransactionError
from offsetfs.kafka.broker.transactions.transaction_coordinator import TransactionCoordinator
from offsetfs.kafka.broker.transactions.transaction_markers import Marker
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import Transaction, TransactionState
from offsetfs.storage.errors import InvalidName, StorageError

_log = logging.getLogger(__name__)

_BUMPS_EPOCHS = 2  # transaction.version

_STATES = frozenset((*(each.shown for each in TransactionState), "PrepareEpochFence"))


class TransactionAdmin:
    """Answers the requests of administrators for transactions."""

    def __init__(self, directory: LogDirectory, coordinator: TransactionCoordinator) -> None:
        self._directory = directory
        self._coordinator = coordinator
        self._patterns = TopicPatterns()

    async def describe(self, request: m.DescribeTransactionsRequest, version: int) -> m.DescribeTransactionsResponse:
        """Return state and partitions of transactional ids."""
        response, slices = m.DescribeTransactionsResponse(), Slices()
        for each in request.transactional_ids:
            await slices.step()
            response.transaction_states.append(await self._described(each))
        return response

    async def _described(self, transactional_id: str) -> m.DescribeTransactionsResponseTransactionState:
        try:
            if not transactional_id:
                raise TransactionError(ErrorCode.INVALID_REQUEST)
            found = await self._coordinator.find(transactional_id)
            if found is None:
                raise TransactionError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        except TransactionError as error:
            return m.DescribeTransactionsResponseTransactionState(error.code, transactional_id)
        by_topic: dict[str, list[int]] = {}
        for each in sorted(found.partitions):
            by_topic.setdefault(each.topic, []).append(each.partition)
        return m.DescribeTransactionsResponseTransactionState(
            transactional_id=transactional_id,
            transaction_state=found.state.shown,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.started_ms,
            producer_id=found.producer_id,
            producer_epoch=found.epoch,
            topics=[m.DescribeTransactionsResponseTopicData(*each) for each in by_topic.items()],
        )

    async def list(self, request: m.ListTransactionsRequest, version: int) -> m.ListTransactionsResponse:
        """Return the transactional ids, of all states or of some. An empty pattern is none."""
        states, ids = set(request.state_filters), set(request.producer_id_filters)
        begun_before = (
            self._directory.clock.now_ms() - request.duration_filter if request.duration_filter >= 0 else None
        )
        try:
            found, slices = list[tuple[str, Transaction]](), Slices()
            for each in await self._coordinator.all():
                await slices.step()
                if _is_listed(each[1], states, ids, begun_before):
                    found.append(each)
            if request.transactional_id_pattern:
                names = await self._patterns.matching(request.transactional_id_pattern, [name for name, _ in found])
                found = [each for each in found if each[0] in names]
        except (TransactionError, GroupError) as error:
            return m.ListTransactionsResponse(error_code=error.code)
        unknown = [each for each in dict.fromkeys(request.state_filters) if each not in _STATES]
        listed = [
            m.ListTransactionsResponseTransactionState(transactional_id, each.producer_id, each.state.shown)
            for transactional_id, each in found
        ]
        return m.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)

    async def write_markers(self, request: m.WriteTxnMarkersRequest, version: int) -> m.WriteTxnMarkersResponse:
        """End transactions in the partitions that are named, on behalf of an administrator or another coordinator."""
        response, slices = m.WriteTxnMarkersResponse(), Slices()
        for each in request.markers:
            await slices.step()
            marker = Marker(
                each.producer_id,
                each.producer_epoch,
                each.transaction_result,
                each.coordinator_epoch,
                each.transaction_version >= _BUMPS_EPOCHS,
            )
            result = m.WritableTxnMarkerResult(each.producer_id)
            response.markers.append(result)
            for topic in (named for named in each.topics if named.partition_indexes):
                written = m.WritableTxnMarkerTopicResult(topic.name)
                result.topics.append(written)
                for index in topic.partition_indexes:
                    await slices.step()
                    code = await self._write(marker, topic.name, index)
                    written.partitions.append(m.WritableTxnMarkerPartitionResult(index, code))
        return response

    async def _write(self, marker: Marker, topic: str, index: int) -> ErrorCode:
        if marker.producer_id < 0 or marker.epoch < 0:
            return ErrorCode.INVALID_REQUEST
        if self._directory.read_only:
            return ErrorCode.POLICY_VIOLATION
        try:
            partition = TopicPartition(topic, index)
            if not self._directory.has(partition):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await self._coordinator.markers.write(marker, partition)
        except InvalidName:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except (StorageError, OSError, MemoryError) as error:
            code = code_of(error)
            if code == ErrorCode.KAFKA_STORAGE_ERROR:
                _log.error("no marker in %s-%d: %s", topic, index, error)
            return code
        return ErrorCode.NONE


def _is_listed(found: Transaction, states: set[str], producer_ids: set[int], begun_before_ms: int | None) -> bool:
    if states and found.state.shown not in states:
        return False
    if producer_ids and found.producer_id not in producer_ids:
        return False
    return begun_before_ms is None or found.started_ms < begun_before_ms
