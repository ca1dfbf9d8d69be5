"""Decoders of the topics in which Kafka keeps its own state, by the option of DumpLogSegments that asks for each."""

from __future__ import annotations

import re
from functools import partial

from offsetfs.storage.coordinators import coordinator_records, metadata_records, remote_log_records
from offsetfs.storage.coordinators.coordinator_records import Buffer, RecordTexts
from offsetfs.storage.dump.log import Decoder
from offsetfs.storage.names import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC

_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_STATUS = re.compile(r'(?<="transactionStatus":)-?[0-9]+')  # the fields before it are numbers


def _transaction(offset: int, key: Buffer | None, value: Buffer | None) -> RecordTexts:
    shown_key, shown_value = coordinator_records.show(TRANSACTIONS_TOPIC, offset, key, value)
    if shown_value is not None:
        shown_value = _STATUS.sub(lambda status: f'"{_state(int(status[0]))}"', shown_value, count=1)
    return shown_key, shown_value


def _state(number: int) -> str:
    return _STATES[number] if 0 <= number < len(_STATES) else str(number)


DECODERS: dict[str, Decoder] = {
    "offsets_decoder": partial(coordinator_records.show, OFFSETS_TOPIC),
    "transaction_log_decoder": _transaction,
    "cluster_metadata_decoder": lambda offset, _, value: metadata_records.show(offset, value),
    "remote_log_metadata_decoder": lambda offset, _, value: remote_log_records.show(offset, value),
    "share_group_state_decoder": partial(coordinator_records.show, SHARE_TOPIC),
}
"""The decoder of each option; of several the first counts, as in Kafka."""

OLD_DECODERS: dict[str, Decoder] = {
    **DECODERS,
    "transaction_log_decoder": partial(coordinator_records.show, TRANSACTIONS_TOPIC),
}
"""Those of Kafka 4.1."""
