"""Other forms of a record through a real mount: records.ndjson, .json, .key, .headers, range/ and last/."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from fixtures.mounts.left_mounts import unmount

pytestmark = pytest.mark.mount

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
PARTITIONS = sorted(path.name.removesuffix(".expected.ndjson") for path in GOLDEN.glob("*.expected.ndjson"))

Records = list[dict[str, Any]]


def expected(partition: str) -> Records:
    with open(GOLDEN / f"{partition}.expected.ndjson") as lines:
        return [json.loads(line) for line in lines]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def said(fields: dict[str, Any], name: str) -> bytes | None:
    """What a line of ours says of a field, as text or in base64."""
    if f"{name}_b64" in fields:
        return base64.b64decode(fields[f"{name}_b64"])
    return None if fields[name] is None else fields[name].encode()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The golden log directory, mounted read only for all tests of this module."""
    point = tmp_path_factory.mktemp("mnt")
    run = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*run, "mount", GOLDEN, point, "-o", "ro"], check=True)
    try:
        yield point
        errors = (point / ".offsetfs/errors").read_text().splitlines()
        # Names that mean nothing are tried, and ranges behind the end, which are empty.
        tried = re.compile(r" EINVAL lookup | - lookup \S+/range/\S+: .*the next record gets offset ")
        assert [line for line in errors if not tried.search(line)] == []
    finally:
        unmount(point)


def shell(directory: Path, command: str) -> str:
    return subprocess.run(["bash", "-c", command], cwd=directory, check=True, capture_output=True).stdout.decode(
        errors="surrogateescape"
    )


def errno_of(act: Callable[[], object]) -> str | None:
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return None


# --- what they say -------------------------------------------------------------------------------------------------


def check_line(partition: str, fields: dict[str, Any], record: dict[str, Any]) -> None:
    topic, _, number = partition.rpartition("-")
    assert (fields["topic"], fields["partition"], fields["offset"]) == (topic, int(number), record["offset"])
    assert (fields["timestamp"], fields["timestamp_type"]) == (record["timestamp"], record["timestamp_type"])
    assert said(fields, "key") == decoded(record["key_b64"])
    value = said(fields, "value")
    if "value_sha256" in record:
        assert value is not None and hashlib.sha256(value).hexdigest() == record["value_sha256"]
    else:
        assert value == decoded(record["value_b64"])
    headers = [(header["key"], said(header, "value")) for header in fields["headers"]]
    assert headers == [(name, decoded(data)) for name, data in record["headers"]]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_line_of_json_has_every_field_of_a_record(tree: Path, partition: str) -> None:
    directory, records = tree / partition, expected(partition)
    content = (directory / "records.ndjson").read_bytes()
    assert (directory / "records.ndjson").stat().st_size == len(content)
    lines = content.split(b"\n")[:-1]
    for line, record in zip(lines, records, strict=True):
        check_line(partition, json.loads(line), record)
    for place in range(0, len(records), len(records) // 20 + 1):
        assert (directory / f"{records[place]['offset']}.json").read_bytes() == lines[place] + b"\n"


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_parts_of_a_record_are_its_key_and_its_headers(tree: Path, partition: str) -> None:
    records = expected(partition)
    for record in records[:: len(records) // 30 + 1]:
        path = tree / partition / str(record["offset"])
        key, headers = Path(f"{path}.key"), Path(f"{path}.headers")
        if record["key_b64"] is None:
            assert errno_of(key.stat) == "ENOENT"
        else:
            assert key.read_bytes() == decoded(record["key_b64"])
            assert key.stat().st_size == len(key.read_bytes())
        names = [line.partition(b":")[0].decode() for line in headers.read_bytes().splitlines()]
        assert names == [name for name, _ in record["headers"]]
        for part in (headers, Path(f"{path}.json")):
            assert part.stat().st_mtime_ns == record["timestamp"] * 1_000_000
            assert part.stat().st_size == len(part.read_bytes())
            assert os.listxattr(part) == [] and part.stat().st_blocks == 0


def test_parts_are_there_where_the_record_is_and_nowhere_else(tree: Path) -> None:
    for partition in ("compacted-0", "transactions-0"):
        offsets = {record["offset"] for record in expected(partition)}
        for offset in range(0, max(offsets) + 3, 2):
            if offset not in offsets:
                for suffix in (".json", ".key", ".headers"):
                    assert errno_of((tree / partition / f"{offset}{suffix}").stat) == "ENOENT"
    assert errno_of((tree / "keyed-0/7.text").stat) == "ENOENT"
    assert (tree / "keyed-0/7.json").samefile(tree / "keyed-0/00000000000000000007.json")
    assert errno_of(lambda: os.open(tree / "keyed-0/7.json", os.O_WRONLY)) == "EROFS"


@pytest.mark.parametrize("partition", PARTITIONS)
def test_ranges_are_cut_out_of_the_growing_views(tree: Path, partition: str) -> None:
    directory, records = tree / partition, expected(partition)
    lines = (directory / "records.ndjson").read_bytes().splitlines(keepends=True)
    bounds = json.loads((GOLDEN / f"{partition}.bounds.json").read_text())
    end = bounds["high_watermark"]
    assert (directory / "range" / f"0..{end + 5}").read_bytes() == (directory / "values").read_bytes()
    assert (directory / "range" / "...ndjson").read_bytes() == b"".join(lines)
    third, half = end // 3, end // 2
    for begin, stop in ((0, half), (third, third + 1), (third, end), (half, half + 7), (end, end + 9)):
        chosen = [line for line, record in zip(lines, records, strict=True) if begin <= record["offset"] < stop]
        path = directory / "range" / f"{begin}..{stop}.ndjson"
        assert (path.stat().st_size, path.read_bytes()) == (len(b"".join(chosen)), b"".join(chosen))
    for count in (0, 1, 7, len(lines) - 1, len(lines), len(lines) + 1):
        if count >= 0:
            chosen = lines[max(len(lines) - count, 0) :]
            assert (directory / "last" / f"{count}.ndjson").read_bytes() == b"".join(chosen)
    if records:
        last = b"".join(b"%b\n" % (directory / str(record["offset"])).read_bytes() for record in records[-3:])
        assert (directory / "last/3").read_bytes() == last


def test_times_bound_a_range_by_the_first_record_at_or_after_them(tree: Path) -> None:
    records, directory = expected("segments-0"), tree / "segments-0"
    lines = (directory / "records.ndjson").read_bytes().splitlines(keepends=True)
    times = [record["timestamp"] for record in records]
    for begin, stop in ((times[0], times[-1]), (times[50], times[100]), (times[-1], times[-1] + 1), (0, times[3])):
        first = next(place for place, timestamp in enumerate(times) if timestamp >= begin)
        behind = next((place for place, timestamp in enumerate(times) if timestamp >= stop), len(times))
        name = f"@{begin // 1000}.{begin % 1000:03d}..@{stop // 1000}.{stop % 1000:03d}.ndjson"
        assert (directory / "range" / name).read_bytes() == b"".join(lines[first:behind])
    assert (directory / "range/2099-01-01..").read_bytes() == b""
    assert (directory / "range/1999-12-31T23:59..now.ndjson").read_bytes() == b"".join(lines)
    mixed = f"10..@{times[40] // 1000}.{times[40] % 1000:03d}.ndjson"
    behind = next(place for place, timestamp in enumerate(times) if timestamp >= times[40])
    assert (directory / "range" / mixed).read_bytes() == b"".join(lines[10:behind])


def test_questions_are_never_listed_and_nonsense_is_refused(tree: Path) -> None:
    listed = os.listdir(tree / "keyed-0")
    assert "records.ndjson" in listed and not {"range", "last"} & set(listed)
    assert not [name for name in listed if name.endswith((".json", ".key", ".headers"))]
    assert os.listdir(tree / "keyed-0/range") == os.listdir(tree / "keyed-0/last") == []
    (tree / "keyed-0/range/1..2").read_bytes()
    assert os.listdir(tree / "keyed-0/range") == []
    for name in ("range/5", "range/1/2", "last/x", "last/-1", "last/1.json"):
        assert errno_of(partial(os.stat, tree / "keyed-0" / name)) in ("ENOENT", "ENOTDIR"), name
    for name in ("range/a..b", "range/5..6.json", "range/-5.."):
        assert errno_of(partial(os.stat, tree / "keyed-0" / name)) == "EINVAL", name
    assert errno_of(lambda: os.open(tree / "keyed-0/range/1..2", os.O_RDWR)) == "EROFS"
    assert errno_of(lambda: os.getxattr(tree / "keyed-0/range/1..2", "user.kafka.key")) == "ENODATA"


# --- the shell -----------------------------------------------------------------------------------------------------


TOOLS = """
    wc -lc < VIEW; head -n 2 VIEW; head -c 777 VIEW | md5sum; tail -n 3 VIEW; tail -c 55 VIEW; sed -n 1p VIEW
    dd if=VIEW bs=7 skip=9 count=3 2>/dev/null; dd if=VIEW bs=64k 2>/dev/null | md5sum; sort -r VIEW | head -n 1
    awk 'END {print NR}' VIEW; grep -c key VIEW; tar cf - VIEW | tar xOf - | cmp - VIEW
    cp VIEW /dev/stdout | cmp - VIEW
"""


@pytest.mark.parametrize("view", ["records.ndjson", "range/3..90.ndjson", "range/3..90", "last/50", "42.json"])
def test_the_usual_tools_read_them_as_plain_files(tree: Path, tmp_path: Path, view: str) -> None:
    plain = tmp_path / view
    plain.parent.mkdir(exist_ok=True)
    plain.write_bytes((tree / "keyed-0" / view).read_bytes())
    command = TOOLS.replace("VIEW", view)
    assert shell(tree / "keyed-0", command) == shell(tmp_path, command) != ""


def test_jq_reads_records(tree: Path) -> None:
    records = expected("keyed-0")
    assert shell(tree, "jq -r .offset keyed-0/records.ndjson").split() == [str(each["offset"]) for each in records]
    chosen = shell(tree, """jq -c 'select(.key == "key-23") | .offset' keyed-0/range/20..60.ndjson""")
    keys = [each["offset"] for each in records if decoded(each["key_b64"]) == b"key-23" and 20 <= each["offset"] < 60]
    assert [int(line) for line in chosen.split()] == keys != []
    assert shell(tree, "jq -r .value keyed-0/42.json") == (tree / "keyed-0/42").read_text() + "\n"


@pytest.mark.parametrize("name", ["records.ndjson", "range/100..700.ndjson", "last/300"])
def test_they_are_seekable_and_can_be_mapped(tree: Path, name: str) -> None:
    with (
        open(tree / "segments-0" / name, "rb") as file,
        mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as mapped,
    ):
        content = file.read()
        assert bytes(mapped) == content
        for place in (len(content) // 2, 1, len(content) - 1, 0):
            file.seek(place)
            assert file.read(100) == content[place : place + 100]


def test_a_partition_is_copied_and_searched_whole(tree: Path, tmp_path: Path) -> None:
    shell(tree, f"cp -r keyed-1 {tmp_path}")
    for name in os.listdir(tree / "keyed-1"):
        if (tree / "keyed-1" / name).is_file() and not name.startswith("append"):
            assert (tmp_path / "keyed-1" / name).read_bytes() == (tree / "keyed-1" / name).read_bytes(), name
    found = shell(tree, "grep -rl key-18 keyed-1 | sort").split()
    assert {"keyed-1/records.ndjson", "keyed-1/values", "keyed-1/42"} <= set(found)
    assert not [name for name in found if "range" in name or "last" in name]


# --- growing -------------------------------------------------------------------------------------------------------


def test_records_grow_and_what_was_cut_out_stays(mount: Callable[..., Any], lasting_copy: Path) -> None:
    directory = mount(lasting_copy).path / "keyed-0"
    with open(directory / "records.ndjson", "rb") as records, open(directory / "range/90...ndjson", "rb") as cut_range:
        before, cut = records.read(), cut_range.read()
        with subprocess.Popen(["tail", "-n", "1", "-f", directory / "records.ndjson"], stdout=subprocess.PIPE) as tail:
            assert tail.stdout is not None
            assert tail.stdout.readline() == before.splitlines(keepends=True)[-1]
            (directory / "append").write_bytes("schön\n".encode())
            line = tail.stdout.readline()
            tail.kill()
        assert json.loads(line)["value"] == "schön" and json.loads(line)["offset"] == 93
        assert records.read() == line
        cut_range.seek(0)
        assert cut_range.read() == cut and os.fstat(cut_range.fileno()).st_size == len(cut)
    assert (directory / "range/90...ndjson").read_bytes() == cut + line
    assert (directory / "last/1.ndjson").read_bytes() == line == (directory / "93.json").read_bytes()
    assert (directory / "last/2").read_bytes().endswith(b"}\nsch\xc3\xb6n\n")


def test_maps_of_records_are_kept_by_a_mount_that_writes(mount: Callable[..., Any], lasting_copy: Path) -> None:
    size = (mount(lasting_copy).path / "segments-0/records.ndjson").stat().st_size
    kept, logs = lasting_copy.glob("segments-0/*.records-map"), lasting_copy.glob("segments-0/*.log")
    assert size > 0 and len(list(kept)) == len(list(logs)) - 1


@pytest.mark.damages
@pytest.mark.parametrize("options", ["", "ro"])
def test_an_inconsistent_map_fails_one_read_and_the_next_reads_the_log(
    mount: Callable[..., Any], lasting_copy: Path, tree: Path, options: str
) -> None:
    expected = (tree / "segments-0/values").read_bytes()
    first = mount(lasting_copy)
    assert (first.path / "segments-0/values").read_bytes() == expected
    first.unmount()
    path = min(lasting_copy.glob("segments-0/*.values-map"))
    image = bytearray(path.read_bytes())
    image[48:56], image[72:80] = (10**12).to_bytes(8, "big"), (10**9).to_bytes(8, "big")
    image[12:16] = crc32c(bytes(image[16:])).to_bytes(4, "big")
    path.write_bytes(image)
    values = mount(lasting_copy, options).path / "segments-0/values"
    assert values.stat().st_size > 10**12
    with values.open("rb", buffering=0) as opened, pytest.raises(OSError, match="Stale") as caught:
        opened.read(1)
    assert caught.value.errno == errno.ESTALE
    assert values.read_bytes() == expected and values.stat().st_size == len(expected)
