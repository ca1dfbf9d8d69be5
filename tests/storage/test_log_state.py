"""The state of a log is a value. Only their own modules assign the attributes of a `Log` or a `Segment`."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_state import LogState
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.segments.segment import Segment

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
FOLDERS = ("storage", "fs", "runtime", "cli", "library", "pipeline")
LOG, SEGMENT = Path("storage/partition/log.py"), Path("storage/segments/segment.py")
OTHER_OBJECTS = {
    ("fs/files/line_index_building.py", "run.failure"),
    ("storage/coordinators/share_groups.py", "kept.leader_epoch"),
    ("storage/verify/repair.py", "outcome.damage"),
    ("storage/verify/repair_plan.py", "plan.next_offset"),
    ("storage/verify/segment.py", "so_far.next_offset"),
    ("storage/verify/segment.py", "so_far.tally.segments"),
}
"""Attributes of other classes with the same names. Only gets shorter."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text())


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Yield each attribute that is assigned, augmented, deleted, or the target of a loop."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


def is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"


def attributes_of(path: Path, name: str) -> set[str]:
    """Return the names of the instance attributes and properties of a class."""
    found = set[str]()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ClassDef) and node.name == name:
            found |= {target.attr for target in assigned(node) if is_own(target)}
            found |= {
                each.name
                for each in node.body
                if isinstance(each, ast.FunctionDef) and "property" in map(ast.unparse, each.decorator_list)
            }
    return found


@pytest.mark.long
def test_only_a_log_and_a_segment_assign_their_own_attributes() -> None:
    names = {*attributes_of(LOG, "Log"), *attributes_of(SEGMENT, "Segment"), *LogState._fields}
    assert {"failure", "log_start_offset", "_state", "size", "log_path"} <= names
    strange = {
        (str(path), ast.unparse(target))
        for path, tree in modules()
        for target in assigned(tree)
        if target.attr in names and not is_own(target)
    }
    assert strange == OTHER_OBJECTS


@pytest.mark.long
def test_no_attribute_is_set_by_its_name() -> None:
    calls = (
        (str(path), ast.unparse(node.func))
        for path, tree in modules()
        if path.parts[0] == "storage"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )
    assert {(path, name) for path, name in calls if name in ("setattr", "delattr", "object.__setattr__")} == set()


@pytest.fixture
def make_log(tmp_path: Path) -> Iterator[Callable[..., Log]]:
    directory = LogDirectory.open(os.fspath(tmp_path))
    yield lambda: directory.create_partition(TopicPartition("orders", 0))
    directory.close()


def sealed(value: bytes = b"v") -> SealedBatch:
    builder = BatchBuilder(1 << 12)
    assert builder.append(None, value, (), 1000)
    return builder.seal()


def test_a_state_stays_as_it_was_while_the_log_goes_on(make_log: Callable[..., Log]) -> None:
    log = make_log()
    before = log.state
    log.append(sealed())
    log.append(sealed())
    log.flush()
    assert (before.next_offset, before.recovery_point) == (0, 0)
    assert log.state == LogState(log.snapshot(), 0, 2, 2)
    assert (log.log_start_offset, log.next_offset, log.recovery_point) == log.state[1:]
    written = log.state
    log.truncate_to(1)
    assert written.next_offset == 2 and log.state[1:] == (0, 1, 1)
    with pytest.raises(AttributeError):
        log.next_offset = 5  # type: ignore[misc]


def test_a_failed_append_leaves_the_state(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    log.append(sealed())
    before = log.state

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Segment, "append", fail)
    with pytest.raises(MemoryError):
        log.append(sealed())
    assert log.state is before


def test_a_state_is_published_under_the_lock_only(make_log: Callable[..., Log]) -> None:
    log = make_log()
    with pytest.raises(AssertionError):
        log.publish(log.state)
    with log.held():
        log.publish(log.state)
