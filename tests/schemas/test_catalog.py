"""The catalog of schemas: states of versions, look-ups, references."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsetfs.schemas import catalog
from offsetfs.schemas.catalog import SchemaCatalog, SchemaReference, SchemaVersion, VersionState, context_of

pytestmark = pytest.mark.unit


def version(
    subject: str, number: int, id_: int, text: str = "{}", *references: tuple[str, int], guid: str | None = None
) -> SchemaVersion:
    found = tuple(SchemaReference(f"{name}.proto", name, of) for name, of in references)
    return SchemaVersion(subject, number, id_, guid, "PROTOBUF", found, text, "_schemas-0 offset 0")


def filled(*versions: SchemaVersion) -> SchemaCatalog:
    made = SchemaCatalog()
    assert all(made.add(each) for each in versions)
    return made


def states(of: SchemaCatalog) -> list[tuple[str, str, str]]:
    return [(str(each), each.text, each.state.value) for each in of]


def test_deleted_and_removed_versions_stay_readable_by_id() -> None:
    made = filled(version("a", 1, 1), version("a", 2, 2), version("a", 3, 3))
    made.delete_subject("a", 2)
    assert [each.state.value for each in made.versions("a")] == ["deleted", "deleted", "active"]
    made.remove("a", 1)
    made.clear_subject("a")
    assert [each.state.value for each in made.versions("a")] == ["removed", "removed", "active"]
    assert [str(each) for each in made.with_id(1)] == ["a/1"]
    made.delete_subject("none", 1)
    made.clear_subject("none")
    made.remove("none", 1)
    made.remove("a", 9)
    assert len(made) == 3


def test_a_version_that_is_written_again_keeps_the_schema_that_it_had() -> None:
    made = filled(version("a", 1, 1, "old"), version("a", 1, 1, "new"), version("a", 1, 7, "new"))
    assert states(made) == [("a/1", "new", "active"), ("a/1", "new", "replaced"), ("a/1", "old", "replaced")]
    assert [each.text for each in made.with_id(1)] == ["new", "old"]
    assert filled(version("a", 1, 1), version("a", 1, 1)).versions("a") == [version("a", 1, 1)]


def test_a_removed_version_can_be_registered_again() -> None:
    made = filled(version("a", 1, 1))
    made.remove("a", 1)
    made.add(version("a", 1, 1))
    assert states(made) == [("a/1", "{}", "active")]


def test_versions_whose_state_changes_again_and_again_stay_right() -> None:
    made = filled(*(version("a", number, number) for number in range(1, 6)))
    for _ in range(50):
        made.delete_subject("a", 3)
        made.add(replace(version("a", 2, 2), state=VersionState.DELETED))
        made.add(version("a", 2, 2))
    assert [each.state.value for each in made.versions("a")] == ["deleted", "active", "deleted", "active", "active"]
    made.clear_subject("a")
    made.delete_subject("a", 4)
    assert [each.state.value for each in made.versions("a")] == ["removed", "deleted", "removed", "deleted", "active"]
    assert len(made) == 5


def test_the_latest_version_is_the_newest_that_is_not_deleted() -> None:
    made = filled(version("a", 1, 1), version("a", 12, 2), version("a", 3, 3))
    assert str(made.latest("a")) == "a/12"
    made.remove("a", 12)
    assert str(made.latest("a")) == "a/3"
    made.delete_subject("a", 3)
    assert str(made.latest("a")) == "a/12" and made.latest("b") is None


def test_an_id_of_several_contexts_is_that_of_the_default_one_first() -> None:
    guid = "04be51b2-a72a-4cef-9758-9b235d30be99"
    made = filled(version(":.staging:a", 1, 1, "s", guid=guid), version("b", 1, 1, "d", guid=guid))
    assert [each.text for each in made.with_id(1)] == [each.text for each in made.with_guid(guid)] == ["d", "s"]
    assert [context_of(each) for each in ("a", ":.x:a", ":.:a", ":.broken", ":a:")] == ["", "x", "", "", ""]


def test_references_that_lead_nowhere_or_in_a_circle_are_named() -> None:
    made = filled(
        version("a", 1, 1, "", ("b", 1), ("c", 1)),
        version("b", 1, 2, "", ("c", 1)),
        version("c", 1, 3),
        version("d", 1, 4, "", ("a", 1), ("gone", 2)),
        version("e", 1, 5, "", ("f", 1)),
        version("f", 1, 6, "", ("e", 1)),
        version("g", 1, 7, "", ("g", 1)),
        version("h", 1, 8, "", ("d", 1)),
    )
    lost = "reference gone.proto=gone/2 of d/1 leads to no schema"
    circle = "reference e.proto=e/1 of f/1 closes a circle"
    assert [(str(each), reason) for each, reason in made.broken_references()] == [
        ("d/1", lost),
        ("e/1", circle),
        ("f/1", circle),
        ("g/1", "reference g.proto=g/1 of g/1 closes a circle"),
        ("h/1", lost),
    ]


def test_a_long_chain_of_references_is_followed_once() -> None:
    count = 20_000
    made = filled(*(version("s", number, number, "", ("s", number + 1)) for number in range(1, count)))
    broken = list(made.broken_references())
    assert len(broken) == count - 1 and len({reason for _, reason in broken}) == 1


def test_a_full_catalog_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "VERSIONS_MAX", 2)
    made = filled(version("a", 1, 1), version("a", 2, 2))
    assert not made.add(version("a", 3, 3)) and not made.add(version("b", 1, 3)) and made.add(version("a", 2, 2))
    assert len(made) == 2 and made.versions("b") == []
    monkeypatch.setattr(catalog, "TEXT_BYTES_MAX", 2000)
    assert SchemaCatalog().add(version("a", 1, 1, "x" * 1000, ("b", 1)))
    for large in (version("a", 1, 1, "x" * 2000), version("a" * 2000, 1, 1), version("a", 1, 1, "", ("b" * 2000, 1))):
        assert not SchemaCatalog().add(large)
    assert not SchemaCatalog().add(version("a", 1, 1, "\u4e2d" * 1000))
    assert VersionState("active") is VersionState.ACTIVE
