"""Decoders of the topics in which Kafka keeps its own state, by the option of DumpLogSegments that asks for each."""

from __future__ import annotations

from functools import partial

from offsetfs.storage.coordinators import coordinator_records, metadata_records
from offsetfs.storage.dump.log import Decoder
from offsetfs.storage.names import OFFSETS_TOPIC, SHARE_TOPIC

DECODERS: dict[str, Decoder] = {
    "offsets_decoder": partial(coordinator_records.show, OFFSETS_TOPIC),
    "transaction_log_decoder": partial(coordinator_records.show, "__transaction_state"),
    "cluster_metadata_decoder": lambda offset, _, value: metadata_records.show(offset, value),
    "share_group_state_decoder": partial(coordinator_records.show, SHARE_TOPIC),
}
"""By option; of several the first counts, as in Kafka."""
