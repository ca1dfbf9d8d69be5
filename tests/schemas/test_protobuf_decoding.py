"""Values of Protobuf, decoded into columns of Arrow: as Google's library decodes them, and any bytes without harm."""

from __future__ import annotations

import base64
from array import array
from typing import Any

import pyarrow as pa
import pytest
from fixtures.logs.random_protobuf import Messages, is_same, message_class, messages, proto_text
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.schemas.protobuf_arrow import ProtobufDecoder
from offsetfs.schemas.protobuf_program import ProtobufProgram, compiled
from offsetfs.schemas.protobuf_schema import MessageType, parsed
from offsetfs.storage.native import protobuf as native
from offsetfs.storage.reference import protobuf as reference

pytestmark = pytest.mark.unit


def message_of(text: str, *path: int) -> MessageType:
    """Return a message of a schema; without a path, the first."""
    found = parsed(text, lambda name: None).message(path or (0,))
    assert found is not None
    return found


def described(file: Any) -> MessageType:
    """Return the first message of Google's descriptor of a file."""
    return message_of(base64.b64encode(file.SerializeToString()).decode())


def decoded(
    writer: MessageType, values: list[bytes | None], reader: MessageType | None = None, skip: int = 0
) -> tuple[list[Any], list[tuple[int, str]]]:
    """Return decoded values and faults."""
    decoder = ProtobufDecoder(writer, writer if reader is None else reader)
    rows = array("i", range(len(values)))
    found, faults = decoder.decode(pa.array(values, pa.binary()), rows, array("i", [skip] * len(rows)))
    found.validate(full=True)
    assert found.type == decoder.type
    return found.to_pylist(), [(fault.row, fault.reason) for fault in faults]


@pytest.mark.long
@settings(max_examples=300)
@given(messages())
def test_values_are_those_of_googles_library(given: Messages) -> None:
    reader = message_class(given.reader)
    found, faults = decoded(described(given.writer), list(given.values), described(given.reader))
    assert not faults
    for row, value in zip(found, given.values, strict=True):
        assert is_same(row, reader.FromString(value)), (row, reader.FromString(value))


@pytest.mark.long
@settings(max_examples=150)
@given(messages())
def test_a_schema_of_text_reads_the_same_as_its_descriptor(given: Messages) -> None:
    library = message_class(given.writer)
    found, faults = decoded(message_of(proto_text(given.writer)), list(given.values))
    assert not faults
    assert all(is_same(row, library.FromString(value)) for row, value in zip(found, given.values, strict=True))


def outcome(module: Any, program: ProtobufProgram, values: pa.Array, skip: int) -> Any:
    decoder = module.ProtobufColumnDecoder(program.code, program.root, program.columns, program.children)
    validity, ends, data = values.buffers()
    rows = array("i", [row for row in range(len(values)) if row % 4 != 3])
    for picks in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        skips = array("i", [skip] * len(picks))
        decoder.decode(ends, data if data is not None else b"", validity, picks, skips)
    faults = list(decoder.faults)
    parts = [(each.validity, each.ends, each.data, each) for each in decoder.finish()]
    return faults, [
        (each.count, each.null_count, *(None if part is None else bytes(part) for part in buffers))
        for *buffers, each in parts
    ]


@st.composite
def damaged_values(draw: st.DrawFn) -> tuple[Messages, list[bytes | None]]:
    """Values with bytes that are changed, missing, or too many."""
    given = draw(messages())
    values: list[bytes | None] = [None]
    for value in given.values:
        changed = bytearray(value + draw(st.binary(max_size=2)))
        for _ in range(draw(st.integers(0, 2)) if changed else 0):
            changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
        values.append(bytes(changed[: draw(st.integers(0, len(changed)))] if draw(st.booleans()) else changed))
    return given, [*values, *draw(st.lists(st.binary(max_size=30), max_size=3))]


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=300)
@given(damaged_values(), st.integers(0, 2))
def test_compiled_and_reference_decoders_agree_on_any_bytes(
    given: tuple[Messages, list[bytes | None]], skip: int
) -> None:
    pair, values = given
    program = compiled(described(pair.writer), described(pair.reader))
    column = pa.array(values, pa.binary())
    assert outcome(native, program, column, skip) == outcome(reference, program, column, skip)


def hides_entries(message: Any) -> bool:
    """Return whether an entry of a map is among the unknown fields: upb leaves it out if a field in it is unknown.

    Java and C++ read such an entry, as it is done here.
    """
    fields = message.DESCRIPTOR.fields_by_number
    unknown = [fields.get(each.field_number) for each in UnknownFieldSet(message)]
    if any(each is not None and each.message_type and each.message_type.GetOptions().map_entry for each in unknown):
        return True
    inner: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is not None:
            is_map = field.message_type.GetOptions().map_entry
            inner += value.values() if is_map else [value] if hasattr(value, "DESCRIPTOR") else value
    return any(hides_entries(each) for each in inner if hasattr(each, "DESCRIPTOR"))


@pytest.mark.long
@settings(max_examples=200)
@given(damaged_values())
def test_what_googles_library_reads_of_damaged_values_is_read(given: tuple[Messages, list[bytes | None]]) -> None:
    """It refuses some that are read here: parts that stay bytes are not looked at."""
    pair, values = given
    library = message_class(pair.writer)
    found, faults = decoded(described(pair.writer), values)
    reasons = dict(faults)
    for row, value in enumerate(values):
        if value is None:
            assert found[row] is None
            continue
        try:
            message = library.FromString(value)
        except DecodeError:
            continue
        if row in reasons:
            assert "UTF-8" in reasons[row]  # proto2 allows any bytes in a string, and Arrow does not
        elif pair.writer.syntax == "proto3" and not hides_entries(message):
            # In proto2, Google's library drops unknown numbers of an enum.
            assert is_same(found[row], message)


# --- by hand ---------------------------------------------------------------------------------------------------------

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1;
  string customer = 2;
  Line line = 3;
  repeated Line lines = 4;
  map<string, int32> notes = 5;
  oneof how { string card = 6; Line cash = 7; }
  google.protobuf.Timestamp at = 8;
  repeated google.protobuf.Duration waits = 9;
  google.protobuf.Int64Value limit = 10;
  google.protobuf.Struct extra = 11;
  google.protobuf.Any any = 12;
  google.protobuf.FieldMask mask = 13;
  google.protobuf.Empty nothing = 14;
  Order before = 15;
  State state = 16;
  message Line { string sku = 1; optional int32 pieces = 2; }
  enum State { NEW = 0; PAID = 1; }
}
"""
LINE = {"sku": "a", "pieces": None}


def field(number: int, content: bytes | int) -> bytes:
    """Return an encoded field: a number below 128, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + bytes([content])
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def one(value: bytes, text: str = ORDER) -> Any:
    """Return the decoded value, and the reason if there is one."""
    found, faults = decoded(message_of(text), [value])
    return found[0], (faults[0][1] if faults else None)


def test_absent_fields_are_null_or_their_default() -> None:
    found, reason = one(b"")
    assert reason is None
    assert {name for name, value in found.items() if value is None} == {
        "line", "card", "cash", "at", "limit", "extra", "any", "mask", "nothing", "before",
    }  # fmt: skip
    assert [found[name] for name in ("id", "customer", "lines", "notes", "waits", "state")] == [
        0,
        "",
        [],
        [],
        [],
        "NEW",
    ]


def test_the_last_value_counts_parts_are_merged_and_a_oneof_has_one_value() -> None:
    found, _ = one(
        field(1, 5) + field(1, 7) + field(3, field(1, b"a")) + field(2, b"x") + field(2, b"longer")
        + field(3, field(2, 3)) + field(7, field(1, b"q")) + field(6, b"1234") + field(7, field(2, 1))
    )  # fmt: skip
    assert (found["id"], found["customer"], found["line"]) == (7, "longer", {"sku": "a", "pieces": 3})
    assert (found["card"], found["cash"]) == (None, {"sku": "", "pieces": 1})


def test_of_a_key_that_a_map_has_twice_the_last_value_counts() -> None:
    entries = [field(1, b"a") + field(2, 1), field(1, b"b") + field(2, 2), field(2, 3) + field(1, b"a"), b""]
    found, faults = decoded(message_of(ORDER), [b"".join(field(5, each) for each in entries), field(5, entries[0])])
    assert not faults
    assert [row["notes"] for row in found] == [[("b", 2), ("a", 3), ("", 0)], [("a", 1)]]


def test_well_known_types_have_the_types_of_arrow() -> None:
    second = field(1, 1) + field(2, 5)
    value = field(8, second) + field(9, second) + field(10, b"") + field(14, b"") + field(13, field(1, b"a.b"))
    value += field(12, field(1, b"t/x") + field(2, b"\xff")) + field(
        11, field(1, field(1, b"k") + field(2, field(4, 1)))
    )
    rows = array("i", (0,))
    column, faults = ProtobufDecoder(message_of(ORDER), message_of(ORDER)).decode(
        pa.array([value]), rows, array("i", (0,))
    )
    (found,) = column.to_pylist()
    assert not faults
    assert (
        column.field("at").type == pa.timestamp("ns", "UTC")
        and column.field("at").cast(pa.int64())[0].as_py() == 1_000_000_005
    )
    assert column.field("waits").flatten().cast(pa.int64()).to_pylist() == [1_000_000_005]
    assert (found["limit"], found["nothing"], found["extra"]) == (0, b"", '{"k":true}')
    assert (found["any"], found["mask"]) == ({"type_url": "t/x", "value": b"\xff"}, {"paths": ["a.b"]})


def test_a_time_that_arrow_cannot_hold_is_null_with_a_reason_and_the_rest_stays() -> None:
    zero_of_go = b"\x08" + varint((1 << 64) - 62_135_596_800)
    found, reason = one(field(1, 7) + field(8, zero_of_go))
    assert (found["id"], found["at"]) == (7, None)
    assert (
        reason
        == "field at: a time is outside of the years 1678 to 2261, or a duration is longer than 292 years: it is null"
    )
    found, reason = one(field(9, b"") + field(9, zero_of_go) + field(9, field(1, 2)))
    assert [wait is None for wait in found["waits"]] == [False, True, False] and "field waits[]" in (reason or "")


def test_struct_is_json_and_damage_in_it_is_null_with_a_reason() -> None:
    nothing, number = field(2, field(1, 0)), field(2, b"\x11" + bytes(6) + b"\xf8\x3f")
    listed = field(2, field(6, field(1, b"") + field(1, field(3, "ü".encode()))))
    found, reason = one(
        b"".join(
            field(11, field(1, field(1, bytes([key])) + part))
            for key, part in zip(b"abc", (nothing, number, listed), strict=True)
        )
    )
    assert (found["extra"], reason) == ('{"a":null,"b":1.5,"c":[null,"ü"]}', None)
    found, reason = one(field(1, 7) + field(11, b"\x0a\x09"))
    assert (found["id"], found["extra"], reason) == (7, None, "field extra: a value of Struct is damaged: it is null")


def test_a_message_within_itself_stays_bytes() -> None:
    inner = field(1, 2) + field(15, field(1, 3))
    found, _ = one(field(1, 1) + field(15, inner[:2]) + field(15, inner[2:]))
    assert found["before"] == inner


def test_a_number_that_an_enum_does_not_name_is_its_digits() -> None:
    found, _ = decoded(message_of(ORDER), [field(16, 9), field(16, 1), b"", varint(16 << 3) + varint((1 << 64) - 5)])
    assert [row["state"] for row in found] == ["9", "PAID", "NEW", "-5"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x08", "field id: the value ends too early"),
        (field(2, b"\xff"), "field customer: a text is not UTF-8"),
        (field(4, field(1, b"ab"))[:-1], "field lines: the value ends too early"),
        (field(4, b"\x0a\x05a"), "field lines[].sku: the value ends too early"),
        (b"\x08" + b"\xff" * 11, "field id: a number has too many bytes"),
        (b"\x07", "a field has a number or a wire type that does not exist"),
        (b"\x00\x00", "a field has a number or a wire type that does not exist"),
        (b"\x0c", "a group has no end, or an end no group"),
        (b"\xfb\x01", "a group has no end, or an end no group"),
        (b"\xfb\x01" * 200, "messages are nested too deeply"),
    ],
)
def test_a_damaged_value_is_a_null_with_the_field_and_all_others_stay(value: bytes, reason: str) -> None:
    good = field(1, 7) + field(4, field(1, b"a"))
    found, faults = decoded(message_of(ORDER), [good, value, None, good])
    assert [row and row["lines"] for row in found] == [[LINE], None, None, [LINE]]
    assert faults == [(1, reason)]


@pytest.mark.parametrize("module", [native, reference])
def test_empty_messages_with_many_fields_are_bounded(module: Any) -> None:
    fields = "".join(f"optional int32 f{number} = {number};" for number in range(1, 5000))
    kind = message_of(f'syntax = "proto3"; message A {{ repeated B b = 1; message B {{ {fields} }} }}')
    values = pa.array([b"\x0a\x00" * 1000, b"\x0a\x00"], pa.binary())
    faults, columns = outcome(module, compiled(kind, kind), values, 0)
    assert [reference.FAULTS[fault.code] for fault in faults] == ["too many fields have no value"]
    assert columns[0][:2] == (2, 1)


def test_a_program_that_refers_to_what_is_not_there_is_refused() -> None:
    program = compiled(message_of(ORDER), message_of(ORDER))
    refused = 0
    for at in range(len(program.code)):
        for number in (-2, 1 << 40, len(program.code)):
            code = program.code[:]
            code[at] = number
            try:
                native.ProtobufColumnDecoder(code, program.root, program.columns, program.children)
            except ValueError:
                refused += 1
    assert refused > 2 * len(program.code)


def test_fields_that_are_not_wanted_are_not_decoded_but_empty_their_oneof() -> None:
    decoder = ProtobufDecoder(message_of(ORDER), message_of(ORDER), ("card", "id"))
    value = field(6, b"1234") + field(7, b"") + field(2, b"\xff") + field(1, 7)
    found, faults = decoder.decode(pa.array([value, field(6, b"5")]), array("i", (0, 1)), array("i", (0, 0)))
    assert found.to_pylist() == [{"card": None, "id": 7}, {"card": "5", "id": 0}] and not faults
