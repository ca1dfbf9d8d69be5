"""Row 11: bytes of a file change by themselves, in every kind of file that a log directory holds.

A state is a directory with one file damaged, opened clean or after a crash, for reading or for writing. Every batch is
asked for twice, times are looked up, the `values` view and what is committed are read, appends go on and are read
again; `bit_rot_judge` says what must hold. The neighbor never notices, nothing but named errors is raised, and no
state takes long or much memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random

from bit_rot_damage import damaged
from bit_rot_judge import Judge, State
from bit_rot_material import Material, materials
from fault_program import Row

from offsetfs.storage import checkpoint
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.settings.topic_settings import TOPICS

STATES_A_ROUND = 100
SECONDS_MAX = 5.0
"""Processor time for one state. They take about ten milliseconds."""

GROWTH_BYTES_MAX = 512 << 20
MEMORY = "/dev/shm"


def play(seed: int, scratch: Path) -> int:
    """Check a hundred states; the seed decides which. What failed is left in `scratch`."""
    rng = Random(seed)
    for number in range(STATES_A_ROUND):
        state, choices = _draw(rng), Random(rng.random())
        place = Path(tempfile.mkdtemp(prefix="offsetfs-rot-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        try:
            _check(state, place, choices)
        except Exception as error:
            shutil.copytree(place, scratch / f"state-{number}", dirs_exist_ok=True)
            raise AssertionError(f"{state}: {type(error).__name__}: {error}") from error
        finally:
            shutil.rmtree(place)
    return STATES_A_ROUND


# --- drawing ---------------------------------------------------------------------------------------------------------


def _draw(rng: Random) -> State:
    """Draw a kind of file first, so that rare kinds get their share; then a file of it, and what happens to it."""
    kind = rng.choice(sorted(_files_by_kind()) + [".log"] * 6)
    material, name = rng.choice(_files_by_kind()[kind])
    is_clean = not material.is_crashed and rng.random() < 0.5
    recovery_point = None
    if not is_clean:
        recovery_point = rng.choice([None, 0, rng.randrange(material.truth.next_offset + 1)])
    damage = damaged(rng, material.files, name)
    return State(material, damage, is_clean, rng.random() < 0.4, recovery_point)


@cache
def _files_by_kind() -> Mapping[str, list[tuple[Material, str]]]:
    kinds: dict[str, list[tuple[Material, str]]] = {}
    for material in materials():
        for name in material.files:
            if material.files[name] and not name.startswith(f"{material.neighbor}/"):
                kind = os.path.basename(name).lstrip("0123456789")
                kinds.setdefault(kind, []).append((material, name))
    return kinds


def _write(state: State, path: Path) -> None:
    files = {**state.material.files, state.damage.file: state.damage.content}
    if not state.is_clean:
        files.pop(checkpoint.CLEAN_SHUTDOWN, None)
    state.material.write(path, files)
    if state.recovery_point is not None and state.damage.file != checkpoint.RECOVERY_POINTS:
        points = {
            state.material.partition: state.recovery_point,
            state.material.neighbor: state.material.neighbor_truth.next_offset,
        }
        checkpoint.write_offsets(os.fspath(path / checkpoint.RECOVERY_POINTS), points)


# --- checking --------------------------------------------------------------------------------------------------------


def _check(state: State, path: Path, choices: Random) -> None:
    _write(state, path)
    begun, memory, judge = time.process_time(), _memory_bytes(), Judge(state)
    if choices.random() < 0.1:
        judge.check_verification(path)
    try:
        directory = LogDirectory.open(os.fspath(path), read_only=state.read_only)
    except StorageError as error:
        assert state.damage.file == TOPICS, f"the directory is refused: {error!r}"
        return
    _check_partitions(judge, directory)
    if not state.read_only and judge.later and choices.random() < 0.3:
        again = LogDirectory.open(os.fspath(path), read_only=True)
        judge.check_again(again.log(state.material.partition))
        again.close()
    assert time.process_time() - begun < SECONDS_MAX, "it took too long"
    assert _memory_bytes() - memory < GROWTH_BYTES_MAX, "it took too much memory"


def _check_partitions(judge: Judge, directory: LogDirectory) -> None:
    state = judge.state
    try:
        judge.check_neighbor(directory.log(state.material.neighbor))
        try:
            log = directory.log(state.material.partition)
        except (StorageError, OSError) as error:
            assert state.damage.is_in(".log"), f"the partition is refused: {error!r}"
            return
        judge.check_reads(log)
        judge.check_searches(log)
        if not state.read_only:
            judge.check_appends(log)
    finally:
        with contextlib.suppress(StorageError, OSError):  # a partition that was refused is named once more
            directory.close()


def _memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


ROW = Row(
    11,
    "bit_rot",
    "a file's bytes change by themselves",
    play,
    seeds_in_ci=range(15),
    goal=20_000,
    promises=(
        "A damaged batch affects only itself: the batches around it stay readable, and `info` or the "
        "error has path, position and offset.",
        "A damaged, missing or inconsistent offset or time index slows look-ups down but never changes an answer.",
    ),
)
