"""`offsetfs ls`, `cat`, `append` and `follow`: the tree where nothing is mounted, and nothing can be."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import BinaryIO

import click
import pytest
from fixtures.mounts.left_mounts import unmount

from offsetfs import NewRecord
from offsetfs import open as open_log
from offsetfs.cli import exit_codes, root_command, run
from offsetfs.cli.completion import completers
from offsetfs.fs.naming.tree_table import IN_PARTITION, IN_TOPIC

OFFSETFS = [sys.executable, "-m", "offsetfs"]
BEGINNING_MS = 1_795_266_300_000
"""2026-11-21T13:05 UTC."""


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log"
    path.mkdir()
    with open_log(path, "a") as directory:
        (orders,) = directory.create("orders")
        orders.extend(NewRecord(b"value %d" % n, b"key", (), BEGINNING_MS + 1000 * n) for n in range(100))
    return str(path)


def values(log: str, partition: str = "orders-0") -> bytes:
    with open_log(log) as directory:
        return b"".join(directory.partition(partition).values())


Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Said:
    """Run a command line; return exit code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(arguments)
        return code, *capfd.readouterr()

    return call


# --- ls and cat ------------------------------------------------------------------------------------------------------


@pytest.mark.unit
def test_files_are_printed_one_after_the_other(said: Said, log: str) -> None:
    assert said("cat", log, "orders-0/42", "orders-0/latest", "orders-0/by-time/2026-11-21T13:05:03") == (
        *(0, "value 42value 99value 3", ""),
    )
    assert said("cat", log, "orders-0/values") == (0, values(log).decode(), "")


@pytest.mark.unit
def test_a_path_that_fails_is_reported_and_the_next_one_follows(said: Said, log: str) -> None:
    code, out, err = said("cat", log, "orders-0/1", "nothing", "orders-0", "orders-0/100", "orders-0/2")
    assert (code, out) == (1, "value 1value 2")
    assert err.splitlines() == [
        f"offsetfs cat: nothing: No such file or directory; {log} has no such topic or partition",
        "offsetfs cat: orders-0: Is a directory; its records are in orders-0/values and orders-0/records.ndjson",
        "offsetfs cat: orders-0/100: No such file or directory; orders-0 has offsets 0 to 99",
    ]


@pytest.mark.unit
def test_the_tree_is_listed(said: Said, log: str) -> None:
    code, out, err = said("ls", log)
    assert (code, err) == (0, "") and {"README", "orders-0"} <= set(out.splitlines())
    names = said("ls", log, "orders-0", "-o", "list=3")[1].splitlines()
    assert {"first", "latest", "append", "values", "segments"} < set(names) and names[-3:] == ["97", "98", "99"]
    assert said("ls", log, "orders-0/42", "orders-0/latest")[1] == "orders-0/42\norders-0/latest\n"
    assert said("ls", log, "nothing")[:2] == (1, "")


@pytest.mark.unit
def test_what_is_listed_in_a_partition_is_offered_at_tab(said: Said, log: str) -> None:
    names = said("ls", log, "orders-0", "-o", "list=none")[1].splitlines()
    assert len(names) > 8 and set(names) <= {offered.rstrip("/") for offered in completers._names_in(IN_PARTITION)}


@pytest.mark.unit
def test_what_is_in_a_topic_is_offered_at_tab(said: Said, log: str) -> None:
    for name in completers._names_in(IN_TOPIC):
        assert said("ls", log, "-l", f"topics/orders/{name.rstrip('/')}", "-o", "list=none")[0] == 0
    ctx = click.Context(root_command)
    ctx.params = {"log_directory": log}
    offered = [item.value for item in completers._tree_paths(ctx, "topics/orders/")]
    assert offered == [f"topics/orders/{name}" for name in completers._names_in(IN_TOPIC)]
    assert "topics/orders/" in [item.value for item in completers._tree_paths(ctx, "topics/o")]


@pytest.mark.unit
def test_a_topic_as_a_whole_is_printed(said: Said, log: str) -> None:
    values = said("cat", log, "orders-0/values")[1]
    assert said("cat", log, "topics/orders/values") == (0, values, "")
    code, out, _ = said("ls", "-l", log, "topics/orders/values")
    assert code == 0 and out.split()[3] == str(len(values.encode()))


@pytest.mark.unit
def test_several_directories_are_distinguished(said: Said, log: str) -> None:
    code, out, _ = said("ls", log, "orders-0/by-time", "orders-0/by-time/2026")
    assert (code, out) == (0, "orders-0/by-time:\n2026\n\norders-0/by-time/2026:\n11\n")


@pytest.mark.unit
def test_a_long_listing_shows_size_time_and_target(said: Said, log: str) -> None:
    lines = said("ls", "-l", log, "orders-0")[1].splitlines()
    rows = {line.split()[5]: line.split() for line in lines}
    assert rows["42"][0] == "-r--r-----" and rows["42"][3:5] == ["8", "2026-11-21T13:05:42.000Z"]
    assert rows["latest"][0] == "lrwxrwxrwx" and rows["latest"][5:] == ["latest", "->", "99"]
    assert said("ls", "-l", log, "orders-0/42")[1].split()[3:] == ["8", "2026-11-21T13:05:42.000Z", "orders-0/42"]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["cat", "{log}", "orders-0/1", "-o", "lingerms=5"], "offsetfs cat: unknown option 'lingerms'"),
        (
            ["ls", "{log}", "-o", "create"],
            "offsetfs ls: -o create, delete and delete-records have no use here: this command only reads",
        ),
        (
            ["append", "{log}", "orders-0", "-o", "ro"],
            "offsetfs append: -o ro has no use here: this command writes",
        ),
        (["cat", "/nowhere", "x"], "offsetfs cat: /nowhere: there is no such directory"),
        (["cat", "{log}"], "offsetfs cat: missing argument 'TREE_PATH...'"),
        (["follow", "{log}", "orders-0/1", "--from", "7"], "offsetfs follow: --from and --ndjson are for a partition"),
    ],
)
def test_a_wrong_call_is_one_sentence(said: Said, log: str, arguments: list[str], sentence: str) -> None:
    code, out, err = said(*(argument.format(log=log) for argument in arguments))
    assert (code, out, err.count("\n")) == (1, "", 1) and err.startswith(sentence)


@pytest.mark.damages
@pytest.mark.unit
def test_damage_that_is_skipped_is_reported(said: Said, log: str, tmp_path: Path) -> None:
    with open_log(log, "a") as directory:
        directory.partition("orders-0").append(b"whole")
    with open(f"{log}/orders-0/00000000000000000000.log", "r+b") as file:
        file.seek(100)
        file.write(b"!")
    code, out, err = said("cat", log, "orders-0/values")
    assert (code, out) == (1, "whole\n") and err.startswith(f"offsetfs cat: {log}/orders-0/") and "checksum" in err


@pytest.mark.long
@pytest.mark.unit
def test_a_reader_that_has_seen_enough_ends_it_quietly(log: str) -> None:
    command = f"{sys.executable} -m offsetfs cat {log} orders-0/values orders-0/values | head -c 0"
    done = subprocess.run(["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (exit_codes.OUTPUT_CLOSED, b"")


# --- append ----------------------------------------------------------------------------------------------------------


Typed = Callable[[bytes], None]
PACKET_BYTES = 4096  # PIPE_BUF: what a pipe with O_DIRECT hands over with one read


def cut(data: bytes, seed: int) -> Iterator[bytes]:
    """Yield `data` in pieces of random sizes, many of them short."""
    random, rest = Random(seed), memoryview(data)
    while rest:
        size = random.choice((1, random.randint(1, 30), random.randint(1, PACKET_BYTES)))
        yield bytes(rest[:size])
        rest = rest[size:]


def fed(data: bytes, seed: int) -> BinaryIO:
    """Return a pipe from which each read gets the next of the pieces of `cut`."""
    reader, writer = os.pipe2(os.O_DIRECT)

    def feed() -> None:
        with open(writer, "wb", buffering=0) as pipe, contextlib.suppress(BrokenPipeError):
            for piece in cut(data, seed):
                pipe.write(piece)

    threading.Thread(target=feed, daemon=True).start()
    return open(reader, "rb")


@pytest.fixture(params=["file", "pipe"])
def typed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typed]:
    """Call it with what is to come from standard input: a file, or a pipe that cuts it anywhere."""
    files = []

    def put(data: bytes) -> None:
        if request.param == "pipe":
            files.append(fed(data, zlib.crc32(request.node.name.encode())))
        else:
            (tmp_path / "typed").write_bytes(data)
            files.append(open(tmp_path / "typed", "rb"))
        monkeypatch.setattr("sys.stdin", files[-1])

    yield put
    for file in files:
        file.close()


@pytest.mark.unit
def test_lines_are_appended_and_the_log_is_closed_cleanly(said: Said, log: str, typed: Typed) -> None:
    before = values(log)
    typed(b"one\ntwo\nunfinished")
    assert said("append", log, "orders-0/append") == (0, "", "")
    assert values(log) == before + b"one\ntwo\nunfinished\n"
    assert os.path.exists(f"{log}/.kafka_cleanshutdown")


@pytest.mark.unit
def test_a_partition_means_its_append_file_and_offsets_are_printed(said: Said, log: str, typed: Typed) -> None:
    typed(b"one\ntwo\n")
    code, out, _ = said("append", log, "orders-0", "--offsets")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == ["100", "101"]


@pytest.mark.unit
def test_lines_of_json_and_whole_files_are_appended(said: Said, log: str, typed: Typed) -> None:
    typed(b'{"key":"k","value":"a"}\n{"value":null}\n')
    assert said("append", log, "orders-0/append.ndjson", "--offsets")[1].split()[::2] == ["100", "101"]
    typed(b"two\nlines")
    code, out, _ = said("append", log, "orders-0/append.raw", "--offsets")
    assert code == 0 and out.split()[0] == "102"
    with open_log(log) as directory:
        records = list(directory.partition("orders-0").read(100))
    assert [(each.key, each.value) for each in records] == [(b"k", b"a"), (None, None), (None, b"two\nlines")]


@pytest.mark.unit
def test_a_record_of_a_file_is_whole_however_its_pipe_is_cut(said: Said, log: str, typed: Typed) -> None:
    picture = Random(1).randbytes(300_000)
    typed(picture)
    assert said("append", log, "orders-0/append.raw") == (0, "", "")
    assert values(log).endswith(b"value 99\n" + picture + b"\n")
    typed(picture * 7)
    code, _, err = said("append", log, "orders-0/append.raw")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("offsetfs append: orders-0/append.raw: a record of at least ")
    assert values(log).endswith(picture + b"\n")


@pytest.mark.unit
def test_json_values_text_stores_values_that_are_not_strings(said: Said, log: str, typed: Typed) -> None:
    lines = b'{"value": {"a": [1, 2.50]}}\n{"value":-7}\n{"value":true}\n{"value":null}\n'
    typed(lines)
    code, _, err = said("append", log, "orders-0/append.ndjson")
    assert code == 1 and "line 1, byte 11: a value is a string or null; to take other JSON as its text" in err
    typed(lines)
    assert said("append", log, "orders-0/append.ndjson", "-o", "json-values=text") == (0, "", "")
    with open_log(log) as directory:
        found = [each.value for each in directory.partition("orders-0").read(100)]
    assert found == [b'{"a": [1, 2.50]}', b"-7", b"true", None]


@pytest.mark.unit
def test_each_whole_line_is_the_value_where_that_is_wanted(said: Said, log: str, typed: Typed) -> None:
    typed(b'{"id":1}\n{"value":"v"}\n')
    code, _, err = said("append", log, "orders-0/append.ndjson")
    assert code == 1 and "--value-is-line" in err
    for path in ("orders-0/append.ndjson", "orders-0"):
        typed(b'{"id":1}\n{"value":"v"}\n')
        assert said("append", log, path, "--value-is-line") == (0, "", "")
    with open_log(log) as directory:
        found = [each.value for each in directory.partition("orders-0").read(100)]
    assert found == [b'{"id":1}', b'{"value":"v"}'] * 2
    assert "not for orders-0/append.raw" in said("append", log, "orders-0/append.raw", "--value-is-line")[2]


@pytest.mark.unit
def test_a_topic_is_appended_to_as_a_whole(said: Said, log: str, typed: Typed) -> None:
    with open_log(log, "a") as directory:
        directory.create("users", 3)
    typed(b"".join(b'{"key":"user %d","value":"%d"}\n' % (n % 5, n) for n in range(50)))
    code, out, _ = said("append", log, "topics/users/append.ndjson", "--offsets")
    assert code == 0 and len(out.splitlines()) == 50 and {line.split()[0] for line in out.splitlines()} <= set("012")
    typed(b"plain\n")
    assert said("append", log, "topics/users") == (0, "", "")
    with open_log(log) as directory:
        records = [record for users in directory.partitions("users") for record in users.read()]
    assert sorted(int(each.value or b"") for each in records if each.key) == list(range(50))
    assert [each.value for each in records if not each.key] == [b"plain"]


@pytest.mark.unit
def test_a_group_commits(said: Said, log: str, typed: Typed) -> None:
    typed(b"42\n")
    assert said("append", log, "groups/billing/orders-0", "-o", "create,linger-ms=0") == (0, "", "")
    assert said("cat", log, "groups/billing/orders-0")[:2] == (0, "42\n")
    with open_log(log) as directory:
        assert sum(each.end_offset for each in directory.partitions("__consumer_offsets")) == 1


@pytest.mark.unit
def test_with_the_option_create_a_partition_is_made_for_what_comes(said: Said, log: str, typed: Typed) -> None:
    typed(b"one\ntwo\n")
    assert said("append", log, "new-3/append", "-o", "create,compression.type=lz4") == (0, "", "")
    assert values(log, "new-3") == b"one\ntwo\n"
    assert said("append", log, "new/append", "-o", "create") == (
        1,
        "",
        "offsetfs append: new: 'new' is a topic; give TOPIC-PARTITION, such as new-0; "
        "mkdir orders-0 makes partition 0 of the topic orders\n",
    )


@pytest.mark.unit
def test_more_than_a_buffer_goes_in(said: Said, log: str, typed: Typed) -> None:
    lines = b"".join(b"line %d\n" % n for n in range(50_000))
    typed(lines)
    assert said("append", log, "orders-0", "-o", "batch-bytes=64k,buffer-bytes=128k")[0] == 0
    assert values(log).endswith(lines)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (
            "orders-0/42",
            "records and views are read only; append, append.ndjson and append.raw of a partition take records",
        ),
        ("orders-0/nothing", "No such file or directory"),
        (
            "orders-7",
            "No such file or directory; {log} has no such topic or partition; "
            "orders has only orders-0; -o create creates it",
        ),
    ],
)
def test_a_file_that_takes_no_records_reports_that(said: Said, log: str, typed: Typed, path: str, reason: str) -> None:
    typed(b"x\n")
    assert said("append", log, path) == (1, "", f"offsetfs append: {path}: {reason.format(log=log)}\n")
    assert values(log).count(b"\n") == 100


@pytest.mark.unit
def test_what_would_make_the_partition_is_named(said: Said, log: str, typed: Typed) -> None:
    typed(b"x\n")
    code, _, err = said("append", log, "orders-7/append")
    assert code == 1 and err.startswith("offsetfs append: orders-7/append: No such file or directory; ")
    assert err.endswith("; orders has only orders-0; -o create creates it\n") and err.count("\n") == 1


@pytest.mark.unit
def test_a_line_that_is_too_long_is_refused_and_what_came_before_it_is_kept(said: Said, log: str, typed: Typed) -> None:
    typed(b"before\n" + b"x" * 2_000_000 + b"\nbehind\n")
    code, _, err = said("append", log, "orders-0")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("offsetfs append: orders-0/append: a record of at least ")
    assert values(log).endswith(b"value 99\nbefore\n")


@pytest.mark.unit
def test_the_holder_of_the_directory_is_named(said: Said, log: str, typed: Typed) -> None:
    typed(b"x\n")
    with open_log(log, "a"):
        code, _, err = said("append", log, "orders-0")
        assert code == exit_codes.FAILED and f"process {os.getpid()}" in err
        assert said("cat", log, "orders-0/1")[:2] == (0, "value 1")


def read_until(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


@pytest.mark.mount
@pytest.mark.promise(
    "When `offsetfs append` has ended, also by SIGINT, SIGTERM or SIGHUP, all records that it accepted are on disk."
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_everything_on_disk(log: str, number: int) -> None:
    command = [*OFFSETFS, "append", log, "orders-0", "--offsets", "-o", "flush-ms=off"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b"one\ntwo\nunfinished")
        process.stdin.flush()
        assert [line.split()[0] for line in read_until(process, 2)] == [b"100", b"101"]
        process.send_signal(number)
        assert process.wait(timeout=30) == exit_codes.INTERRUPTED
        assert process.stderr.read().strip() == b"offsetfs append: interrupted"
    assert values(log).endswith(b"value 99\none\ntwo\nunfinished\n")
    assert "orders 0 103" in Path(log, "recovery-point-offset-checkpoint").read_text()
    assert os.path.exists(f"{log}/.kafka_cleanshutdown")


# --- follow ---------------------------------------------------------------------------------------------------------


class Following:
    """`offsetfs follow` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*OFFSETFS, "follow", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def lines(self, count: int) -> list[str]:
        assert self.process.stdout is not None
        return [self.process.stdout.readline() for _ in range(count)]

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Send a signal, or else stop reading; return exit code and standard error."""
        assert self.process.stdout is not None and self.process.stderr is not None
        if number is None:
            self.process.stdout.close()
        else:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout=30), self.process.stderr.read()
        finally:
            self.process.stdout.close()
            self.process.stderr.close()


@pytest.mark.mount
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_follower_shows_new_records_until_it_is_interrupted(log: str, number: int) -> None:
    following = Following(log, "orders-0", "--from", "-2")
    assert following.lines(2) == ["value 98\n", "value 99\n"]
    with open_log(log, "a") as directory:
        directory.partition("orders-0").append_lines(b"new\nnewer\n")
        assert following.lines(2) == ["new\n", "newer\n"]
    assert following.end(number) == (exit_codes.INTERRUPTED, "")


@pytest.mark.mount
def test_a_topic_is_followed_in_all_its_partitions(log: str) -> None:
    with open_log(log, "a") as directory:
        directory.create("users", partitions=2)
        directory.partition("users-1").append_lines(b"old\n")
    following = Following(log, "users", "--from", "-1", "--ndjson")
    assert json.loads(following.lines(1)[0])["value"] == "old"
    with open_log(log, "a") as directory:
        for number in range(2):
            directory.partition(f"users-{number}").append_lines(b"new\n")
    assert sorted(json.loads(line)["partition"] for line in following.lines(2)) == [0, 1]
    assert following.end(signal.SIGINT) == (exit_codes.INTERRUPTED, "")


@pytest.mark.unit
@pytest.mark.parametrize("path", ["users", "topics/users"])
def test_an_offset_of_a_whole_topic_is_refused(said: Said, log: str, path: str) -> None:
    with open_log(log, "a") as directory:
        directory.create("users", partitions=2)
    message = "offsetfs follow: --from 7: an offset belongs to one partition, such as users-0\n"
    assert said("follow", log, path, "--from", "7") == (1, "", message)


@pytest.mark.mount
def test_a_follower_ends_when_its_reader_is_gone(log: str) -> None:
    following = Following(log, "orders-0/follow@98.ndjson")
    assert [json.loads(line)["offset"] for line in following.lines(2)] == [98, 99]
    assert following.end() == (exit_codes.OUTPUT_CLOSED, "")


@pytest.mark.unit
@pytest.mark.parametrize("start", ["x", "-3x", "../../1"])
def test_an_invalid_start_is_refused(said: Said, log: str, start: str) -> None:
    assert said("follow", log, "orders-0", "--from", start) == (
        1,
        "",
        f"offsetfs follow: --from {start}: give an offset (42), the newest N (-10), or a time (2026-11-20T18:40:01, "
        "-1h30m)\n",
    )


# --- without /dev/fuse, beside others --------------------------------------------------------------------------------


@pytest.mark.mount
@pytest.mark.skipif(os.geteuid() != 0, reason="hides /dev/fuse in a mount namespace of its own")
def test_no_dev_fuse_is_needed(log: str) -> None:
    offsetfs = " ".join(OFFSETFS)
    script = f"""
        set -e
        mount --bind /dev/null /dev/fuse
        ! {offsetfs} mount {log} /mnt 2>/dev/null
        echo hi | {offsetfs} append {log} orders-0/append
        {offsetfs} ls {log} orders-0 -o list=1 | tail -n 1
        {offsetfs} cat {log} orders-0/100
        {offsetfs} cat {log} orders-0/values | tail -n 1
    """
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "100\nhihi\n", "")


@pytest.mark.mount
def test_it_reads_beside_a_mount_and_leaves_writing_to_it(log: str, mount_log: Callable[[str], Path]) -> None:
    point = mount_log(log)
    with open(point / "orders-0/append", "ab", buffering=0) as file:
        file.write(b"through the mount\n")
    reported = subprocess.run([*OFFSETFS, "cat", log, "orders-0/100"], capture_output=True, text=True, check=True)
    assert reported.stdout == "through the mount"
    reported = subprocess.run(
        [*OFFSETFS, "append", log, "orders-0"], input="x\n", capture_output=True, text=True, check=False
    )
    assert reported.returncode == exit_codes.FAILED and f"is mounted at {point} by process" in reported.stderr


@pytest.fixture
def mount_log(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    point = tmp_path / "mnt"
    point.mkdir()

    def mount(log: str) -> Path:
        subprocess.run([*OFFSETFS, "mount", log, point], check=True)
        return point

    yield mount
    unmount(point)


@pytest.mark.unit
def test_lines_of_json_come_out_as_they_do_of_a_mount(said: Said, log: str) -> None:
    code, out, _ = said("cat", log, "orders-0/records.ndjson")
    assert code == 0 and [json.loads(line)["value"] for line in out.splitlines()] == [f"value {n}" for n in range(100)]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("path", "created"),
    [
        ("new-3", "new-3"),
        ("new-3/append", "new-3"),
        ("new", "new-0"),
        ("topics/new", "new-0"),
        ("topics/new/append", "new-0"),
    ],
)
def test_with_the_option_create_the_directory_and_its_first_partition_are_made(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, created: str
) -> None:
    (tmp_path / "typed").write_bytes(b"one\n")
    log = str(tmp_path / "new-log")
    for line in (f"offsetfs append: {log}: is a new log directory\n", ""):
        with open(tmp_path / "typed", "rb") as file:
            monkeypatch.setattr("sys.stdin", file)
            assert said("append", log, path, "-o", "create") == (0, "", line)
    assert values(log, created) == b"one\none\n"


@pytest.mark.unit
def test_records_in_json_have_the_same_option_as_in_follow(said: Said, log: str, typed: Typed) -> None:
    typed(b'{"key": "k", "value": "v"}\n')
    assert said("append", log, "orders", "--ndjson") == (0, "", "")
    with open_log(log) as directory:
        assert [(each.key, each.value) for each in directory.partition("orders-0").read(100)] == [(b"k", b"v")]
    code, _, err = said("append", log, "orders-0/append.raw", "--ndjson")
    assert code == 1 and err.startswith(
        "offsetfs append: --ndjson is for a partition or topic, not for orders-0/append"
    )


@pytest.mark.unit
@pytest.mark.parametrize("path", ["groups/g/orders-0", "no/such", "new-0/values"])
def test_nothing_is_left_in_a_directory_where_nothing_was_made(said: Said, tmp_path: Path, path: str) -> None:
    code, _, err = said("append", str(tmp_path), path, "-o", "create")
    assert (code, err.count("\n"), os.listdir(tmp_path)) == (1, 1, [])
    assert err.endswith("cannot be created; give TOPIC or TOPIC-PARTITION, such as orders-0\n")


# --- several paths, and an end ---------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.unit
def test_several_topics_are_followed_at_once(log: str) -> None:
    with open_log(log, "a") as directory:
        for partition in directory.create("users", 2):
            partition.append(b"old")
    following = Following(log, "users", "orders-0", "-n", "1", "--ndjson")
    shown = sorted((line["topic"], line["value"]) for line in map(json.loads, following.lines(3)))
    assert shown == [("orders", "value 99"), ("users", "old"), ("users", "old")]
    with open_log(log, "a") as directory:
        directory.partition("users-1").append(b"new")
        directory.partition("orders-0").append(b"newer")
    assert sorted(json.loads(line)["value"] for line in following.lines(2)) == ["new", "newer"]
    assert following.end(signal.SIGINT) == (exit_codes.INTERRUPTED, "")


@pytest.mark.long
@pytest.mark.unit
def test_a_path_that_cannot_be_followed_is_reported_and_the_others_are_followed(log: str) -> None:
    following = Following(log, "order", "orders-0", "-n", "1")
    assert following.lines(1) == ["value 99\n"]
    code, error = following.end(signal.SIGINT)
    assert code == exit_codes.INTERRUPTED and error.endswith("did you mean orders?\n")


@pytest.mark.unit
def test_with_an_end_the_records_that_are_there_are_printed(said: Said, log: str) -> None:
    assert said("follow", log, "orders-0", "--from", "97", "--to", "99") == (0, "value 97\nvalue 98\n", "")
    assert said("follow", log, "orders", "--to", "2026-11-21T13:05:02") == (0, "value 0\nvalue 1\n", "")
    code, out, _ = said("follow", log, "orders-0", "--from", "2026-11-21T13:06:38", "--to", "now", "--ndjson")
    assert (code, [json.loads(line)["offset"] for line in out.splitlines()]) == (0, [98, 99])
    with open_log(log, "a") as directory:
        for number, partition in enumerate(directory.create("users", 2)):
            partition.append(b"of %d" % number)
    assert said("follow", log, "users", "--from", "-1h", "--to", "now") == (0, "of 0\nof 1\n", "")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-n", "5", "--from", "7"], "-n and --from exclude each other: give one of them\n"),
        (["--from", "-5", "--to", "9"], "--from -5: with --to give an offset (42) or a time (2026-11-20T18:40, -1h)\n"),
        (
            ["-n", "3", "--to", "now"],
            "-n 3: with --to give --from an offset (42) or a time (2026-11-20T18:40, -1h) instead of -n\n",
        ),
        (["--to", "soon"], "--to soon: with --to give an offset (42) or a time (2026-11-20T18:40, -1h)\n"),
    ],
)
def test_a_start_and_an_end_that_do_not_fit_are_refused(
    said: Said, log: str, arguments: list[str], reason: str
) -> None:
    assert said("follow", log, "orders-0", *arguments) == (1, "", f"offsetfs follow: {reason}")
