"""`.offsetfs` with the commands that people use: cat, cp, echo, grep, ls; also where nothing can be written."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.machine.waiting import soon
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def out(line: str, cwd: Path) -> str:
    done = shell(line, cwd)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def metric(text: str, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(text)
    samples = (sample for family in families for sample in family.samples)
    return next(s.value for s in samples if s.name == f"offsetfs_{name}" and labels.items() <= s.labels.items())


def test_cat_and_cp_see_what_a_mount_does_and_echo_steers_it(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    mounted = mount(tmp_path / "log", "create,flush-ms=off")
    mnt = mounted.path
    out("mkdir orders-0 payments-0; seq 1000 > orders-0/append; cat orders-0/values > /dev/null", mnt)

    # For Prometheus: by cat, and by cp as a cron job takes it.
    out(f"cp .offsetfs/metrics {tmp_path}/offsetfs.prom", mnt)
    for text in (out("cat .offsetfs/metrics", mnt), (tmp_path / "offsetfs.prom").read_text()):
        assert metric(text, "mount_info", mount=str(mnt), log_directory=str(tmp_path / "log"), mode="rw") == 1
        assert metric(text, "appended_records_total", topic="orders", partition="0") == 1000
        assert metric(text, "read_bytes_total", topic="orders") == len("".join(f"{n}\n" for n in range(1, 1001)))
        assert metric(text, "unsynced_batches", topic="orders") > 0

    # For people.
    assert out("grep ^orders-0 .offsetfs/stats", mnt).split()[:3] == ["orders-0", "0", "1000"]
    assert out("grep flush-ms .offsetfs/config", mnt) == "flush-ms=off\n"
    assert out("ls -A .offsetfs; find .offsetfs", mnt) == ".offsetfs\n"
    assert out("cat .offsetfs/version", mnt) == "0.1.0\n"

    # flush: on disk when echo is through, and echo shows what is wrong.
    out("echo orders-0 > .offsetfs/flush", mnt)
    assert metric(out("cat .offsetfs/metrics", mnt), "unsynced_batches", topic="orders") == 0
    out("echo again >> orders-0/append; echo '*' > .offsetfs/flush", mnt)
    assert metric(out("cat .offsetfs/metrics", mnt), "unsynced_batches", topic="orders") == 0
    assert '"recovery_point": 1001' in out("cat orders-0/info", mnt)
    refused = shell("echo nowhere-0 > .offsetfs/flush", mnt)
    assert refused.returncode == 1 and "No such file or directory" in refused.stderr

    # log-level: at once, and only to what there is.
    assert out("cat .offsetfs/log-level", mnt) == "info\n"
    assert out("echo debug > .offsetfs/log-level; cat .offsetfs/log-level", mnt) == "debug\n"
    assert "Invalid argument" in shell("echo loud > .offsetfs/log-level", mnt).stderr
    assert shell("cat orders-0/4711", mnt).returncode == 1
    assert mounted.errors() == ""
    assert shell("rm -f .offsetfs/stats; echo x > .offsetfs/stats", mnt).returncode == 1
    assert [line.split()[1:4] for line in mounted.errors().splitlines()] == [
        ["EPERM", "unlink", ".offsetfs/stats:"],
        ["EPERM", "open", ".offsetfs/stats:"],
    ]
    mounted.unmount()
    assert any(line.endswith(b" DEBUG lookup orders-0/4711: ENOENT\n") for line in mounted.lines)


def test_a_read_only_mount_obeys_signals(mount: Mount, golden_copy: Path) -> None:
    mounted = mount(golden_copy, "ro")
    mnt = mounted.path
    for name in ("flush", "log-level"):
        assert "Read-only file system" in shell(f"echo debug > .offsetfs/{name}", mnt).stderr
    os.kill(mounted.process.pid, signal.SIGUSR1)
    assert soon(lambda: out("cat .offsetfs/log-level", mnt) == "debug\n")
    assert shell("cat keyed-1/4711", mnt).returncode == 1
    os.kill(mounted.process.pid, signal.SIGUSR2)
    assert soon(lambda: out("cat .offsetfs/log-level", mnt) == "info\n")
    assert shell("cat keyed-1/4712", mnt).returncode == 1
    assert metric(out("cat .offsetfs/metrics", mnt), "mount_info", mode="ro") == 1
    mounted.unmount()
    reported = b"".join(mounted.lines)
    assert b" DEBUG lookup keyed-1/4711: ENOENT\n" in reported and b"4712" not in reported


def test_a_follower_is_counted_while_it_follows(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    mnt = mount(tmp_path / "log", "create").path
    reported = out("mkdir orders-0; exec 3< orders-0/follow 4< orders-0/follow; cat .offsetfs/metrics", mnt)
    assert metric(reported, "followers", topic="orders") == 2
    assert soon(lambda: metric(out("cat .offsetfs/metrics", mnt), "followers", topic="orders") == 0)


def test_a_removed_partition_with_an_open_file_leaves_no_number_behind(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    mnt = mount(tmp_path / "log", "create,delete").path
    out("mkdir orders-0; echo one > orders-0/append; exec 3< orders-0/values; rmdir orders-0; cat <&3", mnt)
    assert 'topic="orders"' not in out("cat .offsetfs/metrics", mnt)
