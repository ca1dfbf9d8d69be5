"""Decoders of the topics in which Kafka keeps its own state, by the option of DumpLogSegments that asks for each."""

from __future__ import annotations

from functools import partial

from offsetfs.storage.cluster import cluster_metadata
from offsetfs.storage.coordinators import (
    consumer_offsets,
    coordinator_records,
    share_group_state,
    transaction_state,
)
from offsetfs.storage.dump.log import Decoder

DECODERS: dict[str, Decoder] = {
    "offsets_decoder": partial(coordinator_records.show, consumer_offsets.TYPES),
    "transaction_log_decoder": partial(coordinator_records.show, transaction_state.TYPES),
    "cluster_metadata_decoder": lambda offset, _, value: cluster_metadata.show(offset, value),
    "share_group_state_decoder": partial(coordinator_records.show, share_group_state.TYPES),
}
"""By option; of several the first counts, as in Kafka."""
