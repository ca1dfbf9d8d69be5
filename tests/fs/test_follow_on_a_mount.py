"""`follow` on a real mount, with the commands people use: it blocks, wakes, is let go of, and leaves nothing out."""

import contextlib
import errno
import os
import pty
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fixtures.machine.waiting import soon
from fixtures.mounts.blocked_readers import is_blocked_in_read
from fixtures.mounts.left_mounts import unmount

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]
PROMPT_S = 8.0
"""What letting go of a blocked reader may take on a busy machine. There are five looks a second; else it never ends."""


def sh(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def orders(mount: Mount, tmp_path: Path) -> Path:
    """The directory of a mounted partition with the records one, two, three."""
    (tmp_path / "log").mkdir()
    mounted = mount(tmp_path / "log", "create,linger-ms=0")
    path: Path = mounted.path / "orders-0"
    path.mkdir()
    append(path, b"one\ntwo\nthree\n")
    return path


def append(partition: Path, lines: bytes) -> None:
    with (partition / "append").open("ab", buffering=0) as file:
        file.write(lines)


@contextlib.contextmanager
def running(command: list[str], cwd: Path, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is ended, whatever happens."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


# --- what it shows ---------------------------------------------------------------------------------------------------

SHOWN = {
    "head": ("head -n 3 follow@-3 2>&1", "one\ntwo\nthree\n"),
    "from an offset": ("head -n 2 follow@1 2>&1", "two\nthree\n"),
    "from all twenty digits": ("head -n 1 follow@00000000000000000002 2>&1", "three\n"),
    "more than there are": ("head -n 3 follow@-1000 2>&1", "one\ntwo\nthree\n"),
    "a time": ("head -n 3 follow@-15m 2>&1", "one\ntwo\nthree\n"),
    "a date": ("head -n 3 follow@2020-01-01 2>&1", "one\ntwo\nthree\n"),
    "grep": ("grep -m1 t follow@0", "two\n"),
    "sed": ("sed -n '2{p;q}' follow@0", "two\n"),
    "cat that is timed out": ("timeout 0.5 cat follow@2; echo $?", "three\n124\n"),
    "nothing new": ("timeout 0.5 cat follow; echo $?", "124\n"),
    "nothing since then": ("timeout 0.5 cat follow@now; echo $?", "124\n"),
    "dd without waiting": ("dd if=follow iflag=nonblock status=none 2>&1 | grep -o 'Resource.*'", None),
    "json": ("grep -m1 two follow@0.ndjson | jq -c '[.offset, .value]'", '[1,"two"]\n'),
    "bash": (
        "exec 3< follow@0; read -r a <&3; read -r b <&3; echo $a $b; exec head -n 1 <&3 2>&1",
        "one two\nthree\n",
    ),
    "bash that times out": ("exec 3< <(exec cat follow); read -r -t 0.3 a <&3; echo $?; kill $!", "142\n"),
    "stat": ("stat -c '%s %F %a' follow", "0 regular empty file 440\n"),
    "what head has left": ("exec 3< follow@0; head -n 1 <&3; echo; head -n 2 <&3", "one\n\ntwo\nthree\n"),
    "lines in a loop": ("while read -r a; do echo $a; [ $a = three ] && break; done < follow@0", "one\ntwo\nthree\n"),
    "seeking far": ("dd if=follow@0 bs=2 skip=1 status=none 2>&1", None),
    "no such": ("cat follow.json follower 2>&1 | grep -c 'No such file'", "2\n"),
    "no time": ("cat follow@ follow@x follow@-3x 2>&1 | grep -c 'Invalid argument'", "3\n"),
    "not listed": ("ls | grep -c follow", "0\n"),
}


@pytest.fixture(scope="module")
def module_orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One mount for all that is shown and changes nothing."""
    base = tmp_path_factory.mktemp("shown")
    (base / "log").mkdir()
    point = base / "mnt"
    point.mkdir()
    command = [sys.executable, "-m", "offsetfs", "mount", str(base / "log"), str(point), "-o", "create,linger-ms=0"]
    subprocess.run(command, check=True)
    try:
        (point / "orders-0").mkdir()
        append(point / "orders-0", b"one\ntwo\nthree\n")
        yield point / "orders-0"
    finally:
        unmount(point)


@pytest.mark.parametrize("name", SHOWN)
def test_what_commands_see_of_it(module_orders: Path, name: str) -> None:
    command, expected = SHOWN[name]
    said = sh(command, module_orders).stdout
    if expected is None:
        assert "Resource temporarily unavailable" in said or "Illegal seek" in said
    else:
        assert said == expected


def test_a_blocked_reader_gets_what_is_appended_and_every_record_once(orders: Path) -> None:
    with running(["cat", "follow@2"], orders) as cat:
        assert cat.stdout is not None
        assert cat.stdout.readline() == b"three\n" and soon(lambda: is_blocked_in_read(cat.pid))
        for number in range(200):
            append(orders, b"%d\n" % number)
        assert [cat.stdout.readline() for _ in range(200)] == [b"%d\n" % number for number in range(200)]


def test_records_come_whole_where_they_fit(orders: Path) -> None:
    append(orders, b"%s\n%s\n" % (b"x" * 100, b"y" * 100))
    with open(orders / "follow@3", "rb", buffering=0) as file:
        assert [file.read(150), file.read(150)] == [b"x" * 100 + b"\n", b"y" * 100 + b"\n"]
    with open(orders / "follow@3", "rb", buffering=0) as file:
        assert b"".join(file.read(60) for _ in range(4)) == b"%s\n%s\n" % (b"x" * 100, b"y" * 100)


def test_what_the_last_read_gave_can_be_read_again_and_nothing_else(orders: Path) -> None:
    with open(orders / "follow@0", "rb", buffering=0) as file:
        assert [file.read(4), file.read(100)] == [b"one\n", b"two\nthree\n"]
        for place in (4, 8, 13):
            file.seek(place)
            assert file.read(3) == b"one\ntwo\nthree\n"[place : place + 3]
        for place in (0, 3, 15):
            file.seek(place)
            with pytest.raises(OSError, match="Illegal seek"):
                file.read(100)
        append(orders, b"four\n")
        file.seek(14)
        assert file.read(100) == b"four\n"


def test_a_loop_of_a_shell_costs_a_read_for_each_line_and_not_for_each_byte(orders: Path) -> None:
    append(orders, b"".join(b"%098d\n" % number for number in range(100)))
    metrics = orders.parent / ".offsetfs" / "metrics"

    def reads() -> int:
        found = re.search(r'^offsetfs_requests_total\{operation="read"\} (\S+)$', metrics.read_text(), re.MULTILINE)
        return int(float(found[1])) if found else 0

    before = reads()
    assert sh("for n in $(seq 100); do read -r a; done < follow@3; echo $a", orders).stdout == f"{99:098d}\n"
    assert reads() - before < 150


def test_a_long_read_does_not_hold_back_what_is_there(orders: Path) -> None:
    append(orders, b"x" * 99 + b"\n")
    append(orders, b"".join(b"%098d\n" % number for number in range(50_000)))
    received = 0
    with open(orders / "follow@3", "rb", buffering=0) as file:
        while received < 100 + 50_000 * 99:
            received += len(file.read(64 << 20))
    assert received == 100 + 50_000 * 99


def test_a_handle_that_does_not_block_states_that_nothing_is_there(orders: Path) -> None:
    fd = os.open(orders / "follow", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        os.read(fd, 100)
    append(orders, b"four\n")
    assert os.read(fd, 100) == b"four\n"
    os.close(fd)


# --- letting go ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_blocked_reader_dies_of_signals_at_once(orders: Path, number: signal.Signals) -> None:
    with running(["cat", "follow"], orders) as cat:
        assert soon(lambda: is_blocked_in_read(cat.pid))
        begun = time.monotonic()
        cat.send_signal(number)
        assert cat.wait(10) == -number and time.monotonic() - begun < PROMPT_S


def test_a_signal_that_is_ignored_or_blocked_ends_no_wait(orders: Path) -> None:
    code = (
        "import signal, os; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); fd = os.open('follow', 0);"
        "print('go', flush=True); print(os.read(fd, 100))"
    )
    with running([sys.executable, "-c", code], orders) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == b"go\n"
        assert soon(lambda: is_blocked_in_read(reader.pid))
        reader.send_signal(signal.SIGTERM)
        reader.send_signal(signal.SIGINT)
        time.sleep(0.6)  # three looks
        append(orders, b"four\n")
        assert reader.communicate(timeout=60)[0] == b"b'four\\n'\n"


def test_a_reader_to_which_a_shell_passed_the_file_dies_of_signals_too(orders: Path) -> None:
    with running(["bash", "-c", "exec 3< follow; cat <&3 & echo $!; wait $!; echo $?"], orders) as shell:
        assert shell.stdout is not None
        cat = int(shell.stdout.readline())
        assert soon(lambda: is_blocked_in_read(cat))
        begun = time.monotonic()
        os.kill(cat, signal.SIGKILL)
        assert shell.stdout.readline() == b"137\n" and time.monotonic() - begun < PROMPT_S


def test_a_reader_whose_opener_is_gone_can_be_killed(orders: Path) -> None:
    with running(["bash", "-c", "exec 3< follow; exec 4>&1; (cat <&3 >&4 & echo $!)"], orders) as shell:
        assert shell.stdout is not None
        cat = int(shell.stdout.readline())
        shell.wait(10)
        assert soon(lambda: is_blocked_in_read(cat))
        os.kill(cat, signal.SIGKILL)
        assert soon(lambda: not Path(f"/proc/{cat}").exists() or "Z" in Path(f"/proc/{cat}/stat").read_text())


def test_control_c_in_a_terminal_ends_the_command_in_front(orders: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(orders)
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    os.write(terminal, b"PS1=; stty -echo; cat follow@-1\n")
    said = read_until(terminal, b"three\r\n")
    assert b"three\r\n" in said
    time.sleep(0.1)
    begun = time.monotonic()
    os.write(terminal, b"\x03")
    os.write(terminal, b"echo it was $?\n")
    assert b"it was 130" in read_until(terminal, b"it was 130")
    assert time.monotonic() - begun < PROMPT_S
    os.write(terminal, b"exit\n")
    os.waitpid(pid, 0)
    os.close(terminal)


def read_until(fd: int, wanted: bytes, seconds: float = 10) -> bytes:
    said, deadline = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while wanted not in said and selector.select(max(0, deadline - time.monotonic())):
            said += os.read(fd, 4096)
    return said


def test_a_thread_that_is_blocked_ends_with_its_process(orders: Path) -> None:
    code = (
        "import os, threading, time; fd = os.open('follow', 0);"
        "threading.Thread(target=os.read, args=(fd, 100), daemon=True).start(); print('go', flush=True); time.sleep(60)"
    )
    with running([sys.executable, "-c", code], orders) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == b"go\n"
        task = Path(f"/proc/{reader.pid}/task")
        assert soon(lambda: any(is_blocked_in_read(f"{each.relative_to('/proc')}") for each in task.iterdir()))
        begun = time.monotonic()
        reader.kill()
        assert reader.wait(10) == -signal.SIGKILL and time.monotonic() - begun < PROMPT_S


# --- the end of things -----------------------------------------------------------------------------------------------


def test_the_end_of_the_daemon_lets_all_go(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    mounted = mount(tmp_path / "log", "create,linger-ms=0")
    path = mounted.path / "orders-0"
    path.mkdir()
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(running(["cat", "follow"], path)) for _ in range(5)]
        assert soon(lambda: all(is_blocked_in_read(reader.pid) for reader in readers))
        begun = time.monotonic()
        mounted.process.send_signal(signal.SIGTERM)
        assert [reader.wait(10) for reader in readers] == [1] * 5
        said = [reader.stderr.read() if reader.stderr else b"" for reader in readers]
        assert all(b"No such device" in each for each in said), said
        assert mounted.process.wait(10) == 0 and time.monotonic() - begun < 15


def test_umount_names_the_followers(orders: Path) -> None:
    with running(["cat", "follow"], orders) as cat:
        assert soon(lambda: is_blocked_in_read(cat.pid))
        command = [sys.executable, "-m", "offsetfs", "umount", str(orders.parent)]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert said.returncode != 0 and str(cat.pid) in said.stderr
        assert (orders / "next").read_text() == "3\n"


def test_a_deleted_partition_ends_its_followers(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    path = mount(tmp_path / "log", "create,delete,linger-ms=0").path / "orders-0"
    path.mkdir()
    append(path, b"one\n")
    with running(["cat", "follow@0"], path.parent / "orders-0") as cat:
        assert soon(lambda: is_blocked_in_read(cat.pid))
        path.rmdir()
        out, err = cat.communicate(timeout=60)
        assert out == b"one\n" and b"Stale file handle" in err


def test_a_reader_that_was_overtaken_is_notified_once(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    path = mount(tmp_path / "log", "create,delete-records,linger-ms=0").path / "orders-0"
    path.mkdir()
    for number in range(5):
        append(path, b"%d\n" % number)
    fd = os.open(path / "follow@1", os.O_RDONLY)
    (path / "start").write_text("3")
    with pytest.raises(OSError) as caught:
        os.read(fd, 100)
    assert caught.value.errno == errno.EPIPE
    assert os.read(fd, 100) == b"3\n4\n"
    os.close(fd)
    with open(path / "follow@1", "rb", buffering=0) as file:  # a later reader misses nothing that was promised
        assert file.read(100) == b"3\n4\n"


# --- many ------------------------------------------------------------------------------------------------------------


def test_a_hundred_followers_see_all_of_it(orders: Path) -> None:
    fds = [os.open(orders / "follow", os.O_RDONLY | os.O_NONBLOCK) for _ in range(100)]
    received = dict.fromkeys(fds, b"")
    lines = b"".join(b"line %d\n" % number for number in range(1000))
    with selectors.DefaultSelector() as selector:
        for fd in fds:
            selector.register(fd, selectors.EVENT_READ)
        assert selector.select(0) == []

        def append_all() -> None:
            for part in lines.splitlines(keepends=True):
                append(orders, part)

        writer = threading.Thread(target=append_all)
        writer.start()
        deadline = time.monotonic() + 20
        while any(len(seen) < len(lines) for seen in received.values()) and time.monotonic() < deadline:
            for key, _ in selector.select(1):
                with contextlib.suppress(BlockingIOError):
                    received[key.fd] += os.read(key.fd, 65536)
        writer.join()
    assert all(seen == lines for seen in received.values())
    for fd in fds:
        os.close(fd)


def _fewer_alive(threads: list[threading.Thread], count: int) -> bool:
    return sum(thread.is_alive() for thread in threads) < count


def test_readers_of_one_handle_share_the_records(orders: Path) -> None:
    fd = os.open(orders / "follow", os.O_RDONLY)
    taken: list[bytes] = []

    def read() -> None:
        while (data := os.read(fd, 4096)) != b"end\n":
            taken.append(data)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(100):
        append(orders, b"%d\n" % number)
    assert soon(lambda: len(b"".join(taken).splitlines()) == 100)
    for _ in threads:
        begun = sum(thread.is_alive() for thread in threads)
        append(orders, b"end\n")
        assert soon(partial(_fewer_alive, threads, begun))
    assert sorted(b"".join(taken).splitlines(), key=int) == [b"%d" % number for number in range(100)]
    os.close(fd)


def test_a_mount_answers_beside_eleven_hundred_blocked_readers(orders: Path) -> None:
    code = (
        "import os, sys, threading; threading.stack_size(1 << 17); fd = os.open('follow', 0);"
        "[threading.Thread(target=os.read, args=(fd, 100)).start() for _ in range(1100)]; print('go', flush=True)"
    )
    with running([sys.executable, "-c", code], orders) as readers:
        assert readers.stdout is not None and readers.stdout.readline() == b"go\n"
        for number in range(20):
            append(orders, b"%d\n" % number)
        assert (orders / "next").read_text() == "23\n"
        begun = time.monotonic()
        readers.send_signal(signal.SIGKILL)
        assert readers.wait(30) == -signal.SIGKILL and time.monotonic() - begun < 30
