"""What the commands say, and what they accept: each message names the object and the remedy."""

from __future__ import annotations

import errno
import importlib
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.logs.old_messages import message

from offsetfs.cli import exit_codes, preflight, run
from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.mounts.daemon_log import configure_log
from offsetfs.cli.mounts.unmount_progress import described
from offsetfs.fs.mounting.mount_table import parse
from offsetfs.storage import Unsynced
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import counted, sentence
from offsetfs.storage.maintenance.background_tasks import TaskResult
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.unit

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log directory: users-0 with one record, orders-0 and orders-1 with ten each."""
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(os.fspath(path))
    for name, count in (("users-0", 1), ("orders-0", 10), ("orders-1", 10)):
        partition = TopicPartition.parse(name)
        directory.create_partition(partition)
        builder = BatchBuilder(1 << 20)
        for number in range(count):
            builder.append(None, b"%d" % number, (), 1_790_000_000_000 + number)
        directory.log(partition).append(builder.seal())
    directory.close()
    return path


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Said:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = run([str(each) for each in arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_one_of_a_thing_is_singular() -> None:
    assert [counted(count, "segment") for count in (0, 1, 2)] == ["0 segments", "1 segment", "2 segments"]
    assert described(Unsynced(1, 5)).startswith("1 batch, ") and described(Unsynced(2, 5)).startswith("2 batches, ")
    done = TaskResult("compaction", TopicPartition("users", 0), 1, 1, 3, 1, ("ratio",))
    assert str(done) == "users-0: removed 1 segment, freed 1 byte, kept 1 of 3 records (compaction: ratio)"


def test_a_compaction_that_frees_nothing_reports_that() -> None:
    done = TaskResult("compaction", TopicPartition("users", 0), 0, 0, 1, 1, ("ratio",))
    assert str(done) == "users-0: nothing freed: compaction found no duplicate keys"


def test_a_compaction_that_merges_segments_alone_reports_that() -> None:
    done = TaskResult("compaction", TopicPartition("users", 0), 6, 0, 9, 9, ("ratio",))
    assert str(done) == "users-0: merged small segments, 6 fewer: compaction found no duplicate keys"


def test_verify_counts_one_notice_as_one(log: Path, said: Said) -> None:
    (log / ".kafka_cleanshutdown").unlink()
    code, out, _ = said("verify", log)
    assert code == exit_codes.DONE and out.splitlines()[-1].endswith(": 1 notice")
    assert "the next writer will check what was not yet synced" in out


# --- a topic for its partitions --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("clean", "{log}", "orders", "--dry-run"),
        ("convert", "{log}", "orders", "--dry-run"),
        ("verify", "{log}", "orders"),
        ("dump", "{log}", "orders"),
        ("delete", "{log}", "orders", "--yes"),
        ("delete-records", "{log}", "orders=3", "--yes"),
        ("truncate", "{log}", "users", "0", "--yes"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_topic_is_accepted_where_a_partition_is(log: Path, said: Said, arguments: tuple[str, ...]) -> None:
    code, _, err = said(*(each.format(log=log) for each in arguments))
    assert (code, err) == (exit_codes.DONE, "")


def test_verify_of_a_topic_looks_at_its_partitions_only(log: Path, said: Said) -> None:
    assert said("verify", log, "orders")[1].startswith("2 partitions, ")
    assert said("verify", log, "users")[1].startswith("1 partition, ")


def test_truncate_of_a_topic_with_several_partitions_names_them(log: Path, said: Said) -> None:
    code, _, err = said("truncate", log, "orders", "3", "--yes")
    assert code == exit_codes.WRONG_CALL
    assert err == "offsetfs truncate: 'orders' is a topic with 2 partitions: give one of orders-0, orders-1\n"


def test_hand_over_takes_all_partitions_of_a_topic(log: Path, golden_copy: Path, said: Said) -> None:
    code, out, _ = said("hand-over", log, "users", golden_copy)
    assert code == exit_codes.FAILED and out == "", "the broker has no such topic"


def test_the_name_of_a_topic_states_how_a_partition_is_named() -> None:
    with pytest.raises(Exception, match="'users' is a topic; give TOPIC-PARTITION, such as users-0"):
        TopicPartition.parse("users")


# --- what will be done -----------------------------------------------------------------------------------------------


def test_delete_records_states_what_it_deletes_and_how_to_do_it(log: Path, said: Said) -> None:
    code, out, err = said("delete-records", log, "orders-0=9")
    assert (code, out) == (exit_codes.WRONG_CALL, "orders-0: deletes offsets 0 to 8; 1 record remains\n")
    assert err == "offsetfs delete-records: nothing changed; add --yes to do it\n"


def test_repair_states_what_will_be_checked(log: Path, said: Said) -> None:
    (log / ".kafka_cleanshutdown").unlink()
    (log / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    _, out, _ = said("repair", log)
    assert f"{log}: not cleanly closed: every partition will be recovered\n" in out
    assert "recover: will be checked from offset 0; indexes will be rebuilt\n" in out
    assert out.splitlines()[-1] == "nothing changed; add --yes to do it"


def test_convert_dry_run_names_the_old_segments_and_changes_nothing(tmp_path: Path, said: Said) -> None:
    directory = tmp_path / "logs" / "old-0"
    directory.mkdir(parents=True)
    content = message(1, 0, b"k", b"v", 1_790_000_000_000)
    (directory / "00000000000000000000.log").write_bytes(content)
    before = sorted(os.listdir(directory))
    code, out, _ = said("convert", directory.parent, "--dry-run")
    assert (code, out) == (exit_codes.DONE, f"old-0: would convert 1 segment, {len(content)} bytes\n")
    assert sorted(os.listdir(directory)) == before and (directory / before[0]).read_bytes() == content


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("foo=1", "unknown setting 'foo'\n"),
        ("retention.msec=1", "unknown setting 'retention.msec'; did you mean retention.ms?\n"),
        (
            "retention.ms=-5",
            "retention.ms is -5, but must be a whole number, -1 or greater, or a duration such as 7d\n",
        ),
    ],
)
def test_a_wrong_setting_states_what_would_be_right(log: Path, said: Said, setting: str, sentence: str) -> None:
    code, out, err = said("config", log, "orders", setting)
    assert (code, out) == (exit_codes.WRONG_CALL, "") and err.endswith(sentence)


# --- a broker's directory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["clean", "dry run"])
def test_clean_names_the_topics_of_a_broker_that_it_left_alone(
    golden_copy: Path, said: Said, options: tuple[str, ...]
) -> None:
    topic = next(name.rpartition("-")[0] for name in sorted(os.listdir(golden_copy)) if name.endswith("-0"))
    code, _, err = said("clean", golden_copy, topic, *options)
    assert code == exit_codes.DONE
    assert err.startswith(f"not cleaned: {topic}: ") and "the broker keeps its settings" in err
    assert f"offsetfs config {golden_copy} {topic} cleanup.policy=" in err


@pytest.mark.damages
@pytest.mark.parametrize("version", ["0", "1"])
def test_hand_over_takes_partitions_without_id_from_zookeeper_brokers_only(
    log: Path, tmp_path: Path, said: Said, version: str
) -> None:
    broker = tmp_path / "broker"
    (broker / "users-0").mkdir(parents=True)
    (broker / "users-0" / "00000000000000000000.log").touch()
    (broker / "meta.properties").write_text(f"broker.id=0\nversion={version}\n")
    (broker / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    code, out, err = said("hand-over", log, "users-0", broker)
    if version == "0":
        assert code == exit_codes.DONE and out.startswith("users-0: offsets 0 to 0, "), err
        assert not (broker / "users-0" / "partition.metadata").exists()
    else:
        assert code == exit_codes.FAILED and "start it, create topic users, stop it" in err


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_of_many_partitions_fits_a_screen(tmp_path: Path, said: Said) -> None:
    said("create", tmp_path, "wide", "--partitions", 40)
    code, out, _ = said("status", tmp_path)
    lines = out.splitlines()
    assert code == exit_codes.DONE and len(lines) < 24
    assert lines[-1] == "40 partitions of 1 topic; --all shows each" and lines[2].split()[0] == "wide"
    assert len(said("status", tmp_path, "--all")[1].splitlines()) == 42


def test_status_of_many_partitions_shows_what_a_recovery_cut(tmp_path: Path, said: Said) -> None:
    said("create", tmp_path, "wide", "--partitions", 40)
    (tmp_path / "wide-7" / f"{0:020}.cut-120").write_bytes(b"cut")
    out = said("status", tmp_path)[1]
    assert "wide-7" in out and "a recovery cut " in out and "wide-8" not in out


# --- what was probably meant -----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ls", "{log}/users-0"), "is the directory of a partition; give its log directory, {log}"),
        (("status", "{log}/users-0"), "is the directory of a partition; give its log directory, {log}"),
        (("mount", "{log}/users-0", "{log}/../mnt"), "is the directory of a partition; give its log directory, {log}"),
        (
            ("ls", "{log}", "orders"),
            "orders is a topic: see topics/orders, or one of its partitions: orders-0, orders-1",
        ),
        (("ls", "{log}", "nosuch"), "nosuch: No such file or directory; {log} has no such topic or partition"),
        (("cat", "{log}", "users-0"), "its records are in users-0/values and users-0/records.ndjson"),
        (("cat", "{log}", "orders-0/99"), "orders-0/99: No such file or directory; orders-0 has "),
        (("cat", "{log}", "topics/nosuch/append"), "{log} has no such topic or partition"),
        (("follow", "{log}", "nosuch"), "{log} has no such topic or partition"),
        (("append", "{log}", "nosuch-0"), "{log} has no such topic or partition; -o create creates it"),
        (("append", "{log}", "users-0/values"), "append, append.ndjson and append.raw of a partition take records"),
        (("create", "{log}", "orders-0"), "orders-0 is a partition of topic orders; to add partitions to it use"),
        (("create", "{log}", "t", "--partitions", "0"), "'--partitions': 0 must be from 1 to 100000"),
        (("create", "{log}", "t", "--partitions", "x"), "'--partitions': 'x' is not a whole number"),
        (("top", "{log}", "--interval", "0"), "'--interval': 0 must be 0.1 or greater"),
        (("config", "{log}", "users-0"), "users-0 is a partition; settings belong to its topic, users"),
        (("config", "{log}", "nosuch"), "nosuch: {log} has no such topic"),
        (("config", "{log}", "retention.ms=5"), "give the topic first: offsetfs config {log} TOPIC retention.ms=5"),
        (
            ("config", "{log}", "users", "preallocate=x"),
            "config: topic users: preallocate is 'x', but must be true or false",
        ),
        (("verify", "{log}", "nosuch"), "nosuch: {log} has no such topic or partition"),
        (("dump", "{log}", "nosuch"), "nosuch: {log} has no such topic or partition"),
        (
            ("dump", "{log}/users-0", "--from", "x"),
            "--from x: give an offset (42) or a time (2026-11-20T18:40:01, -1h30m)",
        ),
        (("dump", "{log}/users-0", "--from", "5", "--to", "2"), "--from 5 is after --to 2: the range is empty"),
        (
            ("dump", "{log}", "--foo"),
            "no such option '--foo'; did you mean '--from', '--to'? (see offsetfs dump --help)",
        ),
        (
            ("hand-over", "{log}", "users-0", "{log}"),
            "{log}: is the same log directory as LOGDIR; give that of the broker",
        ),
        (("hand-over", "{log}", "users-0", "{log}/no"), "{log}/no: there is no such directory"),
        (("top", "{log}"), "{log} is not an offsetfs mount"),
        (("spark", "stats", "{log}/no"), "offsetfs spark stats: {log}/no: there is no such directory"),
        (("spark", "stats", "{log}", "--topic", "no"), "offsetfs spark stats: no: {log} has no such topic"),
        (("spark", "verify", "{log}", "no"), "offsetfs spark verify: no: {log} has no such topic or partition"),
        (("spark", "compact", "{log}/users-0"), "is the directory of a partition; give its log directory, {log}"),
        (("spark", "import", "{log}/no", "{log}", "t"), "offsetfs spark import: {log}/no: there is no file to import"),
        (("spark", "import", __file__, "{log}", "t"), "t: {log} has no such topic; --partitions N creates it"),
        (("spark", "import", __file__, "{log}/no", "t"), "offsetfs spark import: {log}/no: there is no such directory"),
        (("spark", "stat"), "no such command 'stat'; did you mean 'stats'? (see offsetfs spark --help)"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]) if isinstance(arguments, tuple) else "",
)
def test_a_wrong_argument_is_one_sentence_that_names_it_and_what_would_be_right(
    log: Path, said: Said, arguments: tuple[str, ...], sentence: str
) -> None:
    (log.parent / "mnt").mkdir()
    code, out, err = said(*(each.format(log=log) for each in arguments))
    assert (code, out) == (exit_codes.WRONG_CALL, "") and sentence.format(log=log) in err
    assert err.count("\n") == 1 and err.startswith(f"offsetfs {arguments[0]}"), err


@pytest.mark.parametrize(
    ("arguments", "may_begin"),
    [
        (("sql", "{}", "SELECT 1"), False),
        (("clean", "{}"), False),
        (("config", "{}", "orders"), False),
        (("truncate", "{}", "orders-0", "3"), False),
        (("delete", "{}", "orders", "--yes"), False),
        (("delete-records", "{}", "orders-0=3"), False),
        (("convert", "{}"), False),
        (("ls", "{}"), False),
        (("schemas", "{}"), False),
        (("serve", "{}", "--listen", "127.0.0.1:0"), True),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_an_empty_directory_is_suggested_only_where_partitions_can_be_made(
    tmp_path: Path, said: Said, arguments: tuple[str, ...], may_begin: bool
) -> None:
    path = os.fspath(tmp_path / "no")
    code, _, err = said(*(each.format(path) for each in arguments))
    assert code == exit_codes.WRONG_CALL
    wanted = "give a log directory, or an empty one" if may_begin else "give a log directory"
    assert err.removeprefix(f"offsetfs {arguments[0]}: ") == f"{path}: there is no such directory; {wanted}\n"


def test_nothing_to_delete_is_no_mistake(log: Path, said: Said) -> None:
    assert said("delete-records", log, "orders-0=0") == (0, "orders-0: begins at 0 already; nothing to delete\n", "")


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [("cat", "orders-0/values"), ("ls",), ("status",), ("verify",), ("sql", "SELECT 1"), ("ls", "--help")],
    ids=lambda each: " ".join(each[:1] + each[1:][-1:]),
)
def test_standard_output_that_is_full_or_closed_is_no_traceback(log: Path, arguments: tuple[str, ...]) -> None:
    verb, *rest = arguments
    command = [sys.executable, "-m", "offsetfs", verb, os.fspath(log), *rest]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == exit_codes.SYSTEM and done.stderr.endswith(": No space left on device\n")
    assert done.stderr.count("\n") == 1 and "orders-0" not in done.stderr
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (closed.returncode, closed.stderr) == (0, "")


def test_a_closed_pipe_ends_every_command_as_its_signal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """click 8.5 ended the process with 1, which says that the call was wrong."""

    def write(**options: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(importlib.import_module("offsetfs.cli.commands.status").command, "callback", write)
    assert run(["status"]) == exit_codes.OUTPUT_CLOSED


@pytest.mark.long
def test_follow_states_at_a_terminal_that_it_waits(log: Path) -> None:
    command = [sys.executable, "-m", "offsetfs", "follow", os.fspath(log), "orders"]
    reader, terminal = os.openpty()
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stderr is not None
        assert follower.stderr.readline() == (
            "offsetfs follow: waiting for new records of topics/orders; --from prints older ones, Ctrl-C ends\n"
        )
        follower.terminate()
        follower.stderr.read()
    os.close(reader)
    os.close(terminal)


def test_the_help_of_repair_names_the_file_of_settings_that_is_set_aside(said: Said) -> None:
    _, out, _ = said("repair", "--help")
    assert ".offsetfs-topics.json.damaged" in out and "offsetfs config" in out
    pages = Path(__file__).parents[2] / "docs" / "use"
    for page in "verify.md", "life-of-a-log.md":
        assert ".offsetfs-topics.json.damaged" in (pages / page).read_text(), page


def test_an_error_of_the_system_is_shown_without_its_number() -> None:
    assert sentence(PermissionError(13, "Permission denied", "/log/a-0")) == "/log/a-0: Permission denied"
    assert sentence(OSError(28, "No space left on device")) == "No space left on device"
    assert sentence(ValueError("wrong")) == "wrong"
    failed = TaskResult("retention", TopicPartition("a", 0), error=PermissionError(13, "Permission denied", "/log/a-0"))
    assert str(failed) == "a-0: retention failed: /log/a-0: Permission denied"


def test_a_directory_that_may_not_be_read_names_its_owner(
    log: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    remedy = f"it belongs to user {owner}: run the command as this user (sudo -u {owner})"
    for verb, wanted in ("ls", "read"), ("clean", "read and write"):
        sentence = f"offsetfs {verb}: {log}: no permission to {wanted} it; {remedy}\n"
        assert said(verb, log) == (exit_codes.WRONG_CALL, "", sentence)


# --- times -----------------------------------------------------------------------------------------------------------


def test_the_log_of_a_mount_has_its_times_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import logging
    import time

    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    root = logging.getLogger()
    before = list(root.handlers), root.level
    try:
        configure_log(foreground=True, path=os.fspath(tmp_path / "log"))
        logging.getLogger("offsetfs").info("mark")
    finally:
        for handler in set(root.handlers) - set(before[0]):
            root.removeHandler(handler)
            handler.close()
        root.setLevel(before[1])
        monkeypatch.undo()
        time.tzset()
    text = (tmp_path / "log").read_text()
    hour = time.strftime("%Y-%m-%dT%H:", time.gmtime())
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[\d+\] INFO mark\n", text) and text.startswith(hour[:11])
    assert abs(int(text[11:13]) - time.gmtime().tm_hour) in (0, 1, 23)


# --- before a mount --------------------------------------------------------------------------------------------------


def test_a_mount_point_that_is_not_empty_is_a_warning(log: Path, tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    assert preflight.hidden_entries(os.fspath(tmp_path / "mnt")) == []
    (tmp_path / "mnt" / "notes").touch()
    (warning,) = preflight.hidden_entries(os.fspath(tmp_path / "mnt"))
    assert warning.endswith("/mnt: is not empty; the mount hides 1 entry until it is unmounted")


def test_a_process_that_may_not_mount_gets_the_right_and_an_alternative(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nCapEff:\t00000000a80425fb\n")
    if os.geteuid() == 0:
        with pytest.raises(Failure, match=r"CAP_SYS_ADMIN is missing.*--cap-add SYS_ADMIN.*offsetfs ls, cat"):
            preflight.check_capability(os.fspath(status))
    status.write_text("Name:\tpython\nCapEff:\t000001ffffffffff\n")
    preflight.check_capability(os.fspath(status))


def test_the_table_of_mounts_states_whose_a_mount_is() -> None:
    lines = ["36 35 0:57 / /mnt/k ro,nosuid - fuse.offsetfs /srv/log ro,user_id=1000,group_id=1000\n"]
    (mount,) = parse(lines)
    assert (mount.owner, mount.source) == (1000, "/srv/log")
    assert parse(["36 35 98:0 / /mnt rw - ext3 /dev/root rw\n"])[0].owner is None
