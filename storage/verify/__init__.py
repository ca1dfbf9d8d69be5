"""Verification of a log directory without changing it, and repairs that first report what they would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.verify.finding import DAMAGE, NOTICE, Finding
    from offsetfs.storage.verify.partition_context import VerificationCounts
    from offsetfs.storage.verify.repair import RepairOutcome, RepairPlan, carry_out_repair, plan_repair
    from offsetfs.storage.verify.repair_plan import PartitionPlan, readable_ranges
    from offsetfs.storage.verify.segment_inspection import (
        InspectedChunk,
        SegmentInspection,
        chunk_starts,
        inspect_chunk,
    )
    from offsetfs.storage.verify.verify import Verification

__all__ = [
    "DAMAGE",
    "NOTICE",
    "Finding",
    "InspectedChunk",
    "PartitionPlan",
    "RepairOutcome",
    "RepairPlan",
    "SegmentInspection",
    "Verification",
    "VerificationCounts",
    "carry_out_repair",
    "chunk_starts",
    "inspect_chunk",
    "plan_repair",
    "readable_ranges",
]

__getattr__ = lazy_names(
    __name__,
    {
        "DAMAGE": "verify.finding",
        "NOTICE": "verify.finding",
        "Finding": "verify.finding",
        "InspectedChunk": "verify.segment_inspection",
        "PartitionPlan": "verify.repair_plan",
        "RepairOutcome": "verify.repair",
        "RepairPlan": "verify.repair",
        "SegmentInspection": "verify.segment_inspection",
        "Verification": "verify.verify",
        "VerificationCounts": "verify.partition_context",
        "carry_out_repair": "verify.repair",
        "chunk_starts": "verify.segment_inspection",
        "inspect_chunk": "verify.segment_inspection",
        "plan_repair": "verify.repair",
        "readable_ranges": "verify.repair_plan",
    },
)
