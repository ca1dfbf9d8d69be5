"""What must hold of a log directory in which one file was damaged (P5, P9), and what cannot be known.

An answer is the undamaged one, or a named error. Batches whose own bytes are whole are read, unless recovery may cut
them, or the file that vouches for them is the damaged one. Four things are not held against the engine, because no
reader can tell them from the truth:

* a base offset that changed while those of the log still rise, or that two batches now share: the checksum of a batch
  does not cover it, for Kafka stamps it afterwards;
* a whole batch that came to lie in a second place, or in another log: it has no mark of where it belongs;
* a segment that was cut behind a whole batch: so ends one before a compacted gap. `offsetfs verify` reports it;
* a log start checkpoint that still reads as one: what lies below it counts as removed.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bit_rot_damage import OFFSET_SIZE, Damage
from bit_rot_material import Known, Material, Truth, committed_of, values_of
from fixtures.logs.planted_logs import sealed

from offsetfs.storage import checkpoint
from offsetfs.storage.errors import StorageError
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.verify.finding import Finding
from offsetfs.storage.verify.verify import Verification


@dataclass(frozen=True)
class State:
    """A damaged directory and how it is opened. `recovery_point` None: as the checkpoint says."""

    material: Material
    damage: Damage
    is_clean: bool
    read_only: bool
    recovery_point: int | None

    def __str__(self) -> str:
        how = f"{'clean' if self.is_clean else 'crashed'}, {'read only' if self.read_only else 'for writing'}"
        return f"{self.material.name}, recovery point {self.recovery_point}, {how}; {self.damage}"


@dataclass
class Judge:
    """Asks the logs of one state. `was_told`: the engine spoke of damage, when the log was first opened."""

    state: State
    was_told: bool = False
    later: list[Record] = field(default_factory=list)

    # --- reading -----------------------------------------------------------------------------------------------------

    def check_neighbor(self, log: Log) -> None:
        """Everything is as it was: no process changed it."""
        truth = self.state.material.neighbor_truth
        assert not log.damage
        for known in truth.batches:
            if known.last_offset >= log.log_start_offset:
                found = _records_at(log, known.last_offset)
                assert found == known.records, f"the neighbor's offset {known.last_offset}"

    def check_reads(self, log: Log) -> None:
        """Ask for each batch by its first and by its last offset."""
        self.was_told = self.was_told or bool(log.damage) or self.state.read_only
        for known in self._truth.batches:
            for offset in {known.base_offset, known.last_offset}:
                if log.log_start_offset <= offset <= log.next_offset:
                    self._check_read(log, known, offset)
                else:
                    assert self._may_be_missing(log, known, offset), f"offset {offset} is out of range"

    def _check_read(self, log: Log, known: Known, offset: int) -> None:
        try:
            records = _records_at(log, offset)
        except (StorageError, OSError) as error:
            assert self._may_fail(known), f"offset {offset}: {error!r}"
            return
        for record in records:
            is_true = record in (self._record(record.offset), self._foreign.get(record.offset))
            assert is_true or self.state.damage.is_unknowable, f"asked {offset}: {str(record)[:200]}"
        if offset in self._records and offset not in [record.offset for record in records]:
            is_silent = not (self.was_told or self._may_be_cut(known) or self._nobody_can_tell)
            assert self._may_be_missing(log, known, offset) and not is_silent, f"offset {offset} is missing"

    @cached_property
    def _truth(self) -> Truth:
        return self.state.material.truth

    def _record(self, offset: int) -> Record | None:
        return next((each for each in self.later if each.offset == offset), self._records.get(offset))

    @cached_property
    def _records(self) -> dict[int, Record]:
        return self._truth.records()

    @cached_property
    def _foreign(self) -> dict[int, Record]:
        return self.state.material.neighbor_truth.records()

    # --- what may be -------------------------------------------------------------------------------------------------

    def _may_fail(self, known: Known) -> bool:
        """Whether a named error is an answer to a reader of the batch."""
        damage = self.state.damage
        return not damage.spares(known) or damage.is_unknowable or (damage.is_file_of(known) and self._has_strays)

    def _may_be_missing(self, log: Log, known: Known, offset: int) -> bool:
        """Whether a batch may be absent: it is damaged, or recovery was free to cut it, or it cannot be known."""
        damage = self.state.damage
        if offset < log.log_start_offset:
            return damage.file == checkpoint.LOG_STARTS or offset < self._truth.log_start_offset
        if not damage.is_in(".log"):
            return False
        is_doubtful = damage.is_unknowable or (damage.is_file_of(known) and self._has_strays)
        return not damage.spares(known) or self._may_be_cut(known) or is_doubtful

    def _may_be_cut(self, known: Known) -> bool:
        """Whether a batch lies beyond the recovery point of a crashed directory, and behind the damage."""
        state = self.state
        point = self._truth.next_offset if state.recovery_point is None else state.recovery_point
        behind = (known.file, known.end) > (state.damage.live_name, 0)
        return not state.is_clean and known.last_offset >= point and behind

    @cached_property
    def _nobody_can_tell(self) -> bool:
        logs = [name for name in self.state.material.files if name.startswith(f"{self.state.material.partition}/")]
        is_last = self.state.damage.live_name == max(name.removesuffix(".swap") for name in logs if ".log" in name)
        damage = self.state.damage
        return self._has_strays or damage.is_unknowable or (damage.ends_a_batch and not is_last)

    @cached_property
    def _has_strays(self) -> bool:
        """Whether a batch lies where it was not, its offset apart."""
        state, material = self.state, self.state.material
        for known in (*self._truth.batches, *material.neighbor_truth.batches):
            content = material.files.get(known.file) or material.files.get(f"{known.file}.swap", b"")
            place = state.damage.content.find(content[known.position + OFFSET_SIZE : known.end]) - OFFSET_SIZE
            if place >= 0 and (place != known.position or not state.damage.is_file_of(known)):
                return True
        return False

    # --- searching ---------------------------------------------------------------------------------------------------

    def check_searches(self, log: Log) -> None:
        """Times, `values` and what is committed: the undamaged answers, unless it is the log that is damaged."""
        is_log = self.state.damage.is_in(".log") or self.state.damage.file == checkpoint.LOG_STARTS
        self._check_times(log, is_log=is_log)
        try:
            assert values_of(log) == self._truth.values or is_log, "the view of values"
        except StorageError as error:
            assert is_log, f"the view of values: {error!r}"
        committed = committed_of(log)
        end = log.last_stable_offset()
        if not is_log and not self.state.damage.is_in(".txnindex"):
            assert committed == self._truth.committed, f"committed: {committed}"
            assert end == self._truth.last_stable_offset or end == log.next_offset >= self._truth.next_offset

    def _check_times(self, log: Log, *, is_log: bool) -> None:
        for timestamp, expected in self._truth.times.items():
            found = log.find_timestamp(timestamp)
            if not is_log:
                assert found == expected, f"time {timestamp}: {found} instead of {expected}"
            elif found is not None and not self.state.damage.is_unknowable:
                records = self._records.get(found[0]), self._foreign.get(found[0])
                assert found[1] in [record.timestamp for record in records if record], f"time {timestamp}: {found}"

    # --- writing and verifying ---------------------------------------------------------------------------------------

    def check_appends(self, log: Log) -> None:
        """Append behind what was given out; a partition may refuse by name."""
        try:
            appended = [log.append(sealed(b"later %d" % number, 1_800_000_000_000)) for number in range(2)]
            log.flush()
        except (StorageError, OSError) as error:
            assert self.state.damage.is_in(".log"), f"an append is refused: {error!r}"
            return
        if self.state.recovery_point is None and self.state.damage.file != checkpoint.RECOVERY_POINTS:
            assert appended[0].base_offset >= self._truth.next_offset, "offsets are given out again"
        self.later = [record for each in appended for record in _records_at(log, each.base_offset)]
        assert len(self.later) == len(appended), "what was appended is not read"

    def check_again(self, log: Log) -> None:
        """What was appended is there when the directory is opened again, and so is everything else."""
        self.was_told = True
        for record in self.later:
            assert record in _records_at(log, record.offset), "what was appended is gone"
        self.check_reads(log)

    def check_verification(self, path: Path) -> None:
        """What reading cannot tell, `offsetfs verify` does: a segment that lost batches at its end."""
        found: list[Finding] = []
        with contextlib.suppress(OSError):
            Verification(os.fspath(path), None, report=found.append).run()
        if self.state.damage.is_in(".log") and self.state.damage.ends_a_batch and self._index_knows_more():
            stem = os.path.basename(self.state.damage.live_name).removesuffix("log")
            assert any(stem in finding.path for finding in found), "verify finds nothing"

    def _index_knows_more(self) -> bool:
        """Whether the offset index of the damaged log has an entry behind its end."""
        damage = self.state.damage
        index = self.state.material.files.get(f"{damage.file.replace('.log', '.index')}", b"")
        entries = struct.iter_unpack(">ii", index[: len(index) // 8 * 8])
        return any(position >= len(damage.content) for _, position in entries if position)


def _records_at(log: Log, offset: int) -> Sequence[Record]:
    batch = log.batch_at(offset)
    return () if batch is None else tuple(batch.records())
