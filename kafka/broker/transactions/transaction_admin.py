"""Administration of transactions: DescribeTransactions, ListTransactions, WriteTxnMarkers.

Follows TransactionCoordinator.handleDescribeTransactions, TransactionStateManager.listTransactionStates and
KafkaApis.handleWriteTxnMarkersRequest (KIP-664).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from offsetfs.kafka.broker.errors import code_of
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.groups.topic_patterns import TopicPatterns
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.transactions.transaction import TransactionError
from offsetfs.kafka.broker.transactions.transaction_coordinator import TransactionCoordinator
from offsetfs.kafka.broker.transactions.transaction_markers import GROUP_MAX, Marker
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import Transaction, TransactionState
from offsetfs.storage.errors import InvalidName

_log = logging.getLogger(__name__)

_BUMPS_EPOCHS = 2  # transaction.version

_STATES = frozenset((*(state.shown for state in TransactionState), "PrepareEpochFence"))


_Codes = dict[str, dict[int, ErrorCode]]
"""Error codes by topic and partition."""


class _Wanted(NamedTuple):
    """A marker that is to be written, and where its error code belongs."""

    marker: Marker
    partition: TopicPartition
    codes: dict[int, ErrorCode]


class TransactionAdmin:
    """Answers the requests of administrators for transactions."""

    def __init__(self, directory: LogDirectory, coordinator: TransactionCoordinator) -> None:
        self._directory = directory
        self._coordinator = coordinator
        self._patterns = TopicPatterns()

    async def describe(self, request: m.DescribeTransactionsRequest, version: int) -> m.DescribeTransactionsResponse:
        """Return state and partitions of transactional ids."""
        response, slices = m.DescribeTransactionsResponse(), Slices()
        for transactional_id in request.transactional_ids:
            await slices.step()
            response.transaction_states.append(await self._described(transactional_id))
        return response

    async def _described(self, transactional_id: str) -> m.DescribeTransactionsResponseTransactionState:
        try:
            if not transactional_id:
                raise TransactionError(ErrorCode.INVALID_REQUEST)
            transaction = await self._coordinator.find(transactional_id)
            if transaction is None:
                raise TransactionError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        except TransactionError as error:
            return m.DescribeTransactionsResponseTransactionState(error.code, transactional_id)
        by_topic: dict[str, list[int]] = {}
        for partition in sorted(transaction.partitions):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        return m.DescribeTransactionsResponseTransactionState(
            transactional_id=transactional_id,
            transaction_state=transaction.state.shown,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.started_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            topics=[m.DescribeTransactionsResponseTopicData(*topic) for topic in by_topic.items()],
        )

    async def list(self, request: m.ListTransactionsRequest, version: int) -> m.ListTransactionsResponse:
        """Return the transactional ids, of all states or of some. An empty pattern is none."""
        states, ids = set(request.state_filters), set(request.producer_id_filters)
        begun_before = (
            self._directory.clock.now_ms() - request.duration_filter if request.duration_filter >= 0 else None
        )
        try:
            transactions, slices = list[tuple[str, Transaction]](), Slices()
            for entry in await self._coordinator.all():
                await slices.step()
                if _is_listed(entry[1], states, ids, begun_before):
                    transactions.append(entry)
            if request.transactional_id_pattern:
                names = await self._patterns.matching(
                    request.transactional_id_pattern, [name for name, _ in transactions]
                )
                transactions = [entry for entry in transactions if entry[0] in names]
        except (TransactionError, GroupError) as error:
            return m.ListTransactionsResponse(error_code=error.code)
        unknown = [state for state in dict.fromkeys(request.state_filters) if state not in _STATES]
        listed = [
            m.ListTransactionsResponseTransactionState(
                transactional_id, transaction.producer_id, transaction.state.shown
            )
            for transactional_id, transaction in transactions
        ]
        return m.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)

    async def write_markers(self, request: m.WriteTxnMarkersRequest, version: int) -> m.WriteTxnMarkersResponse:
        """End transactions in the partitions that are named, on behalf of an administrator or another coordinator.

        A partition that a marker names twice gets it once, and a producer has one result, as in Kafka.
        """
        codes, group, slices = dict[int, _Codes](), list[_Wanted](), Slices()
        for asked in request.markers:
            await slices.step()
            marker = Marker(
                asked.producer_id,
                asked.producer_epoch,
                asked.transaction_result,
                asked.coordinator_epoch,
                asked.transaction_version >= _BUMPS_EPOCHS,
            )
            of_producer = codes.setdefault(asked.producer_id, {})
            for topic, indexes in (await _partitions_of(asked, slices)).items():
                of_topic = of_producer.setdefault(topic, {})
                for index in indexes:
                    await slices.step()
                    of_topic[index] = code = self._refusal(marker, topic, index)
                    if code == ErrorCode.NONE:
                        group.append(_Wanted(marker, TopicPartition(topic, index), of_topic))
                    if len(group) == GROUP_MAX:
                        await self._write(group)
                        group.clear()
        if group:
            await self._write(group)
        return await _markers_response(codes, slices)

    def _refusal(self, marker: Marker, topic: str, index: int) -> ErrorCode:
        """Return the error of a marker that cannot be written, or NONE."""
        if marker.producer_id < 0 or marker.epoch < 0:
            return ErrorCode.INVALID_REQUEST
        if self._directory.read_only:
            return ErrorCode.POLICY_VIOLATION
        try:
            partition = TopicPartition(topic, index)
        except InvalidName:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            return ErrorCode.NONE if self._directory.has(partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except OSError as error:
            return _code_of_failure(error, partition)

    async def _write(self, group: Sequence[_Wanted]) -> None:
        """Write markers to their partitions; set the codes of those that fail."""
        errors = await self._coordinator.markers.write_group([(wanted.marker, wanted.partition) for wanted in group])
        for (_, partition, codes), error in zip(group, errors, strict=True):
            if error is not None:
                codes[partition.partition] = _code_of_failure(error, partition)


async def _partitions_of(marker: m.WritableTxnMarker, slices: Slices) -> dict[str, dict[int, None]]:
    """Return the partitions by topic, each once."""
    partitions = dict[str, dict[int, None]]()
    for topic in marker.topics:
        for index in topic.partition_indexes:
            await slices.step()
            partitions.setdefault(topic.name, {})[index] = None
    return partitions


async def _markers_response(codes: dict[int, _Codes], slices: Slices) -> m.WriteTxnMarkersResponse:
    response = m.WriteTxnMarkersResponse()
    for producer_id, of_producer in codes.items():
        await slices.step()
        result = m.WritableTxnMarkerResult(producer_id)
        response.markers.append(result)
        for topic, of_topic in of_producer.items():
            written = m.WritableTxnMarkerTopicResult(topic)
            result.topics.append(written)
            for index, code in of_topic.items():
                await slices.step()
                written.partitions.append(m.WritableTxnMarkerPartitionResult(index, code))
    return response


def _code_of_failure(error: Exception, partition: TopicPartition) -> ErrorCode:
    code = code_of(error)
    if code == ErrorCode.KAFKA_STORAGE_ERROR:
        _log.error("no marker in %s: %s", partition, error)
    return code


def _is_listed(transaction: Transaction, states: set[str], producer_ids: set[int], begun_before_ms: int | None) -> bool:
    if states and transaction.state.shown not in states:
        return False
    if producer_ids and transaction.producer_id not in producer_ids:
        return False
    return begun_before_ms is None or transaction.started_ms < begun_before_ms
