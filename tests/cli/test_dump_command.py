"""`offsetfs dump`, as typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from offsetfs import cli
from offsetfs.cli import exit_codes

pytestmark = pytest.mark.unit

Captured = pytest.CaptureFixture[bytes]


@pytest.fixture(autouse=True)
def _in_the_golden_directory(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden)


def dumped(capfdbinary: Captured, *words: str, code: int = exit_codes.DONE) -> tuple[str, str]:
    """Standard output and standard error of a dump."""
    assert cli.run(["dump", *words]) == code
    captured = capfdbinary.readouterr()
    return captured.out.decode(), captured.err.decode()


def titles(output: str) -> list[str]:
    return [line.removeprefix("Dumping ") for line in output.splitlines() if line.startswith("Dumping ")]


def test_kafkas_options_give_kafkas_output(golden: Path, capfdbinary: Captured) -> None:
    files = ",".join(sorted(str(path.relative_to(golden)) for path in (golden / "compacted-tx-0").glob("*.log")))
    words = ("--kafka-version", "4.1", "--deep-iteration", "--print-data-log", "--files", files)
    output, errors = dumped(capfdbinary, *words)
    assert output == (golden / "compacted-tx-0.dump.txt").read_bytes().decode()
    assert set(errors.splitlines()) == set((golden / "compacted-tx-0.dump.err.txt").read_text().splitlines())


def test_a_partition_stands_for_its_logs_in_order(capfdbinary: Captured) -> None:
    output, _ = dumped(capfdbinary, "--print-data-log", "segments-0")
    assert output == Path("segments-0.dump.txt").read_bytes().decode()


@pytest.mark.parametrize("option", ["--verify-index-only", "--index-sanity-check"])
def test_a_partition_stands_for_its_indexes_when_those_are_to_be_checked(
    option: str, golden: Path, capfdbinary: Captured
) -> None:
    output, errors = dumped(capfdbinary, option, "segments-0")
    kinds = {Path(title).suffix for title in titles(output)}
    assert kinds == {".index", ".timeindex"} and errors == ""
    assert "offset:" not in output


def test_a_log_directory_stands_for_its_partitions_or_those_that_are_named(golden: Path, capfdbinary: Captured) -> None:
    everything, _ = dumped(capfdbinary, str(golden))
    partitions = [str(path) for path in golden.iterdir() if path.is_dir()]
    assert {str(Path(title).parent) for title in titles(everything)} == set(partitions)
    some, _ = dumped(capfdbinary, str(golden), "keyed-2", "epochs-0")
    assert titles(some)[0] == f"{golden}/keyed-2/00000000000000000000.log"
    assert {Path(title).parent.name for title in titles(some)} == {"keyed-2", "epochs-0"}


def test_files_are_dumped_as_they_are_named(capfdbinary: Captured) -> None:
    output, _ = dumped(capfdbinary, "--files", "keyed-0//00000000000000000000.index,,keyed-0/", "keyed-1")
    assert titles(output) == ["keyed-0/00000000000000000000.index", "keyed-0", "keyed-1/00000000000000000000.log"]


@pytest.mark.parametrize(
    "words", [(), ("--value-decoder-class",), ("--key-decoder-class", "org.apache.kafka.tools.api.StringDecoder")]
)
def test_a_decoder_class_asks_for_data(words: tuple[str, ...], capfdbinary: Captured) -> None:
    output, _ = dumped(capfdbinary, "keyed-1", *words)
    assert (" payload: " in output) is bool(words)


@pytest.mark.parametrize(
    ("partition", "option", "shown"),
    [
        ("__consumer_offsets-1", "--offsets-decoder", 'key: {"type":"1","data":{"group":"billing",'),
        ("__transaction_state-0", "--transaction-log-decoder", '"transactionalId":"tx-1"'),
        ("__transaction_state-0", "--share-group-state-decoder", "skipping."),
        ("__transaction_state-0", "--cluster-metadata-decoder", "Error at 0, skipping."),
    ],
)
def test_decoders_are_chosen_by_name(partition: str, option: str, shown: str, capfdbinary: Captured) -> None:
    output, _ = dumped(capfdbinary, partition, option)
    assert shown in output


def test_a_range_shows_the_batches_and_records_within(capfdbinary: Captured) -> None:
    output, _ = dumped(capfdbinary, "segments-0", "--print-data-log", "--from", "60", "--to", "63")
    assert titles(output) == ["segments-0/00000000000000000041.log"]
    assert [line.split()[2] for line in output.splitlines() if line.startswith("| ")] == ["60", "61", "62"]


def test_a_time_is_an_offset_by_another_name(capfdbinary: Captured) -> None:
    when = "2026-11-20T18:40:01.200Z"
    output, _ = dumped(capfdbinary, "keyed-1", "--json", "--print-data-log", "--from", when)
    first = json.loads(output.splitlines()[0])
    assert first["timestamp"] >= 1795200001200
    until, _ = dumped(capfdbinary, "keyed-1", "--json", "--print-data-log", "--to", when)
    assert json.loads(until.splitlines()[-1])["offset"] == first["offset"] - 1


def test_a_time_in_the_future_is_after_everything(capfdbinary: Captured) -> None:
    assert dumped(capfdbinary, "segments-0", "--from", "@99999999999") == ("", "")


@pytest.mark.parametrize(
    ("words", "code", "reported"),
    [
        ((), 1, "nothing to dump"),
        (("--value-decoder-class", "com.example.Avro", "keyed-0"), 1, "only org.apache.kafka.tools.api.StringDecoder"),
        (("--kafka-version", "3.9", "keyed-0"), 1, "--kafka-version"),
        (("--from", "yesterday", "keyed-0"), 1, "--from yesterday: give an offset (42) or a time"),
        (("--from", "-1", "keyed-0"), 1, "--from -1: give an offset (42) or a time"),
        (("--max-bytes", "-1", "keyed-0"), 1, "--max-bytes"),
        (("--bogus",), 1, "--bogus"),
        (("missing-0",), 1, "missing-0: no such file or directory"),
        (("--files", "missing-0/0.log"), 32, "missing-0/0.log: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_an_exit_code(
    words: tuple[str, ...], code: int, reported: str, capfdbinary: Captured
) -> None:
    _, errors = dumped(capfdbinary, *words, code=code)
    assert errors.startswith("offsetfs dump: ") and reported in errors and errors.count("\n") == 1


def test_a_directory_of_something_else_is_refused(tmp_path: Path, capfdbinary: Captured) -> None:
    _, errors = dumped(capfdbinary, str(tmp_path), code=1)
    assert "contains neither segments nor partitions" in errors


@pytest.mark.damages
def test_damage_is_reported_with_its_location_and_changes_the_exit_code(
    golden_copy: Path, capfdbinary: Captured
) -> None:
    path = golden_copy / "codec-none-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[462 + 8 : 462 + 12] = b"\0\0\0\3"
    path.write_bytes(data)
    output, errors = dumped(capfdbinary, str(path), code=exit_codes.FAILED)
    assert errors == f"offsetfs dump: {path}, position 462: a batch size of 3; going on at 7010\n"
    assert output.count("\nbaseOffset: ") == Path("codec-none-0.dump.txt").read_text().count("\nbaseOffset: ") - 1


def test_help_and_version_name_what_they_follow(capfdbinary: Captured) -> None:
    text, _ = dumped(capfdbinary, "--help")
    assert "offsetfs dump /var/lib/kafka/data orders-0 users-1 --print-data-log" in text
    assert "DumpLogSegments" in dumped(capfdbinary, "--version")[0]


@pytest.mark.long
def test_a_reader_that_has_seen_enough_ends_it_quietly(golden: Path) -> None:
    code = "import sys; from offsetfs import cli; sys.exit(cli.run(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "dump", "--print-data-log", *(str(golden / "codec-none-0") for _ in range(20))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == exit_codes.OUTPUT_CLOSED
