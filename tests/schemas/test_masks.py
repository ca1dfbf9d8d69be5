"""Masks: what they select, and that nothing of it is left in the columns."""

from __future__ import annotations

import io
import json
import re
from array import array
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from offsetfs.schemas.avro_arrow import AvroDecoder, avro_members
from offsetfs.schemas.avro_schema import parsed
from offsetfs.schemas.masks import WITHHELD, FieldMask, MaskError, Masks, TypeMember, parse_masks

pytestmark = pytest.mark.unit

PERSON: dict[str, Any] = {"type": "record", "name": "Person", "fields": [
    {"name": "name", "type": "string"},
    {"name": "email", "type": ["null", "string"], "confluent:tags": ["PII", "CONTACT"]},
    {"name": "boss", "type": ["null", "Person"]}]}  # fmt: skip
ORDER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": PERSON},
    {"name": "others", "type": {"type": "array", "items": "Person"}},
    {"name": "labels", "type": {"type": "map", "values": "Person"}},
    {"name": "paid", "type": ["null", "string", {"type": "record", "name": "Card", "confluent:tags": ["PCI"],
        "fields": [{"name": "number", "type": "string"}]}]}]}  # fmt: skip


def person(name: str, boss: Any = None) -> dict[str, Any]:
    return {"name": name, "email": f"{name}@secret", "boss": boss}


VALUE = {
    "id": 1,
    "customer": person("a", person("secret")),
    "others": [person("b"), person("c")],
    "labels": {"x": person("d")},
    "paid": {"number": "secret"},
}


def column(*rows: Any) -> pa.Array:
    written: list[bytes | None] = []
    known = fastavro.parse_schema(json.loads(json.dumps(ORDER)))
    for row in rows:
        buffer = io.BytesIO()
        if row is not None:
            fastavro.schemaless_writer(buffer, known, row)
        written.append(None if row is None else buffer.getvalue())
    kind = parsed(json.dumps(ORDER))
    picks = array("i", range(len(rows)))
    found, faults = AvroDecoder(kind, kind).decode(pa.array(written, pa.binary()), picks, 0)
    assert not faults
    return found


def mask_of(*fields: str) -> FieldMask:
    made = parse_masks([f"orders:{','.join(fields)}"]).of("orders", avro_members(parsed(json.dumps(ORDER))))
    assert made is not None
    return made


def paths(*fields: str) -> set[str]:
    return {".".join(path) for path in mask_of(*fields).paths}


def test_a_path_selects_a_field_and_undecoded_values_that_have_it() -> None:
    assert paths("id") == {"id"}
    assert paths("customer.email") == {"customer.email", "customer.boss"}
    assert paths("paid.Card.number", "others.name") == {"paid.Card.number", "others.name", "others.boss"}


def test_a_star_selects_all_fields_of_a_name_or_all() -> None:
    expected = {f"{each}.{name}" for each in ("customer", "others", "labels") for name in ("email", "boss")}
    assert paths("*.email") == expected
    assert paths("*.number") == {"paid.Card.number"} == paths("paid.*.number")
    assert paths("*") >= {"id", "customer", "others", "labels", "paid"}


def test_a_tag_selects_the_fields_and_records_that_have_it() -> None:
    assert paths("#PII") == paths("*.email") == paths("#CONTACT")
    assert paths("#PCI") == {"paid.Card"}


def test_tags_of_the_metadata_are_those_of_fields_with_the_last_name() -> None:
    members = list(avro_members(parsed(json.dumps(ORDER))))
    for path, expected in (
        ("**.email", {"customer.email", "others.email", "labels.email"}),
        ("Order.id", {"id"}),
        ("shop.Person.em*l", {"customer.email", "others.email", "labels.email"}),
        ("**.num?er", {"paid.Card.number"}),
    ):
        found = Masks({"orders": ["#SECRET"]}).of("orders", members, [(path, "SECRET")])
        assert found is not None
        assert {".".join(each) for each in found.paths if each[-1] != "boss"} == expected


def test_masked_fields_are_null_wherever_they_are() -> None:
    rows = column(VALUE, None, {**VALUE, "paid": "cash"})
    masked = mask_of("*.email", "#PCI").applied(rows)
    masked.validate(full=True)
    assert masked.type == rows.type and masked[1].as_py() is None
    first, _, third = masked.to_pylist()
    assert first["customer"] == {"name": "a", "email": None, "boss": None}
    assert [each["name"] for each in first["others"]] == ["b", "c"] and first["labels"][0][0] == "x"
    assert first["paid"] == {"string": None, "Card": None} and third["paid"]["string"] == "cash"
    assert b"secret" not in b"".join(bytes(part) for part in masked.buffers() if part is not None)
    assert "secret" in str(rows.to_pylist())


def test_slices_are_masked_as_the_whole() -> None:
    rows = column(*({**VALUE, "id": number, "others": [person("b")] * number} for number in range(5)))
    mask = mask_of("others.email", "labels.name")
    whole = mask.applied(rows).to_pylist()
    assert mask.applied(rows.slice(2, 2)).to_pylist() == whole[2:4]
    assert mask.applied(rows.take(pa.array([3, None, 0]))).to_pylist() == [whole[3], None, whole[0]]


def test_reasons_of_a_masked_topic_are_withheld() -> None:
    reasons = pa.array([None, "quotes secret", "other"]).dictionary_encode()
    assert mask_of("id").reasons(reasons).to_pylist() == [None, WITHHELD, WITHHELD]


def test_columns_without_a_schema_of_their_own_may_have_any_name() -> None:
    members = [TypeMember(()), TypeMember(("email",), frozenset(["PII"])), TypeMember(("extra",), is_open=True)]
    found = Masks({"t": ["*.email"]}).of("t", members)
    assert found is not None and found.paths == {("email",), ("extra",)}
    for field in ("email", "#PII"):  # readers give such a column the tags that are within it
        path = Masks({"t": [field]}).of("t", members)
        assert path is not None and path.paths == {("email",)}
    for mistyped in ("*.emial", "#PI"):
        with pytest.raises(MaskError, match="did you mean"):
            Masks({"t": [mistyped]}).of("t", members)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("custmer.email", "values of orders have no such field; did you mean customer.email?"),
        ("email", "values of orders have no such field; there are "),
        ("*.emial", "no such field; did you mean *.email?"),
        ("#pii", "no such tag; did you mean #PII?"),
        ("#X1234", "no such tag; there are #CONTACT, #PCI, #PII"),
        ("labels.x", "no such field"),
    ],
)
def test_a_field_that_is_not_there_is_refused(field: str, message: str) -> None:
    with pytest.raises(MaskError, match=re.escape(message)):
        mask_of(field)
    with pytest.raises(MaskError):
        mask_of("id", field)


@pytest.mark.parametrize("word", ["orders", "orders:", ":id", "orders:id,,x", "orders:#", ""])
def test_a_text_that_is_no_mask_is_refused(word: str) -> None:
    with pytest.raises(MaskError, match=r"is not TOPIC:FIELD\[,FIELD\]"):
        parse_masks([word])


def test_a_topic_that_is_not_there_is_refused() -> None:
    with pytest.raises(MaskError, match=r"mask ordrs: there is no such topic; did you mean orders\?"):
        parse_masks(["ordrs:id"]).check_topics({"orders", "users"})
