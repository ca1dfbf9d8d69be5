"""The systemd units: systemd finds nothing to say about them, and a real service manager gets on with them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures.machine.free_ports import free_port
from fixtures.machine.own_machine import OFFSETFS, Machine, own_machine

from offsetfs.cli.installed.contents import contents
from offsetfs.cli.installed.units import SERVICES

MANAGER = "/lib/systemd/systemd"
CGROUPS = Path("/sys/fs/cgroup")
LOG, MNT, ROWS = "/mnt/log", "/mnt/mnt", "/mnt/rows.db"
SHOW_ROWS = """
import sqlite3, sys
print(sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute("SELECT payload FROM messages").fetchall())
"""
UNIT = "offsetfs@kafka"
MOUNT = "offsetfs@.service"
UNITS = [MOUNT, *(f"offsetfs-{service.verb}@.service" for service in SERVICES)]


def unit(whose: str, name: str = MOUNT) -> str:
    made = {each.path: each.content for each in contents("/usr/local", sys.executable)}
    return made[f"/usr/local/lib/systemd/{whose}/{name}"]


@pytest.mark.unit
@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("whose", ["system", "user"])
def test_systemd_reports_nothing_about_a_unit(whose: str, name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze verifies units, and is not there")
    (tmp_path / name).write_text(unit(whose, name))
    command = ["systemd-analyze", f"--{whose}", "--man=no", "verify", f"{tmp_path}/{name}"]
    with tempfile.TemporaryDirectory() as short:  # sockets of the machine's other units are named below it
        environment = {**os.environ, "XDG_RUNTIME_DIR": short}
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.unit
def test_no_line_gives_the_service_a_mount_namespace_of_its_own() -> None:
    """A mount in a private namespace would be invisible to other processes (systemd.exec(5))."""
    hiding = (
        *("Private", "Protect", "ReadOnly", "ReadWrite", "Inaccessible", "TemporaryFileSystem", "Bind", "Root"),
        *("MountFlags", "DynamicUser", "NoExecPaths", "ExecPaths", "StateDirectory", "MountAPIVFS"),
    )
    names = [line.partition("=")[0] for line in unit("system").splitlines() if not line.startswith("#")]
    assert not [name for name in names if name.startswith(hiding)]


# --- a real service manager ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manager:
    """A service manager that was started for the test."""

    machine: Machine
    environment: dict[str, str]

    def systemctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.machine.run("systemctl", "--user", *arguments, user=None, **self.environment)

    def shown(self, name: str, unit: str = UNIT) -> str:
        return self.systemctl("show", unit, "--property", name, "--value").stdout.strip()

    def configure(self, name: str, content: str) -> None:
        self.machine.path(f"/mnt/config/offsetfs/{name}.conf").write_text(content)


def without_namespaces(unit: str) -> str:
    """Return the unit without what only the manager of the system can do: mounts of the service's own."""
    return "".join(line for line in unit.splitlines(keepends=True) if not line.startswith(("Protect", "Private")))


@contextmanager
def own_cgroup() -> Iterator[list[Path]]:
    """Yield a control group of our own in each hierarchy that a service manager needs."""
    parents = [CGROUPS / "systemd", CGROUPS / "unified"] if (CGROUPS / "systemd").is_dir() else [CGROUPS]
    made = [parent / f"offsetfs-test-{os.getpid()}" for parent in parents if parent.is_dir()]
    try:
        for path in made:
            path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield made
    finally:
        for path in made:
            below = sorted((each for each in path.rglob("*") if each.is_dir()), key=lambda each: len(each.parts))
            for each in [*reversed(below), path]:
                each.rmdir()


@pytest.fixture(params=["system", "user"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    """A manager that knows our units, and `kafka.conf` for a mount."""
    if not os.path.exists(MANAGER) or os.geteuid() != 0:
        pytest.skip(f"it takes root and {MANAGER}")
    with own_machine(tmp_path) as machine, own_cgroup() as groups, notified(tmp_path) as manager_is_ready:
        for path in (LOG, MNT, "/mnt/run", "/mnt/config/systemd/user", "/mnt/config/offsetfs", "/run/systemd/system"):
            machine.path(path).mkdir(parents=True)
        assert machine.offsetfs("create", LOG, "orders").returncode == 0
        for name in UNITS:
            machine.path(f"/mnt/config/systemd/user/{name}").write_text(without_namespaces(unit(request.param, name)))
        machine.path("/mnt/config/systemd/user/idle.target").write_text("[Unit]\nDefaultDependencies=no\n")
        machine.path("/mnt/config/offsetfs/kafka.conf").write_text(
            f"LOGDIR={LOG}\nMNT={MNT}\nOPTIONS=linger-ms=60000,flush-ms=off\n"
        )
        environment = {"XDG_RUNTIME_DIR": "/mnt/run", "XDG_CONFIG_HOME": "/mnt/config", "HOME": "/mnt"}
        enter = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
        start = machine.command("sh", "-c", f"{enter} exec {MANAGER} --user --unit=idle.target --log-target=null")
        process = subprocess.Popen(start, env={**os.environ, **environment, "NOTIFY_SOCKET": f"{tmp_path}/notify"})
        try:
            manager_is_ready()
            yield Manager(machine, environment)
        finally:
            machine.run("umount", "--lazy", MNT)
            machine.run("systemctl", "--user", "exit", user=None, **environment)
            try:
                process.wait(timeout=30)
            finally:
                process.kill()


@contextmanager
def notified(directory: Path) -> Iterator[Callable[[], None]]:
    """Yield what waits for a manager to be up: it reports by the protocol that it speaks with services."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(f"{directory}/notify")
        ours.settimeout(30)

        def wait() -> None:
            try:
                while b"READY=1" not in ours.recv(4096):
                    pass
            except TimeoutError:
                pytest.skip("no service manager comes up here")

        yield wait


@pytest.mark.mount
def test_a_service_manager_starts_restarts_and_stops_a_mount(manager: Manager) -> None:
    machine, systemctl, shown = manager.machine, manager.systemctl, manager.shown
    started = systemctl("start", UNIT)
    assert (started.returncode, started.stderr) == (0, ""), started.stderr + systemctl("status", UNIT).stdout
    assert shown("StatusText") == f"{LOG} is mounted at {MNT}"
    with open(machine.path(f"{MNT}/orders-0/append"), "ab", buffering=0) as append:
        append.write(b"one\nunfinished")
    assert systemctl("stop", UNIT).returncode == 0
    assert (shown("Result"), shown("ExecMainStatus"), machine.mounted(MNT)) == ("success", "0", {})

    assert systemctl("start", UNIT).returncode == 0
    assert machine.path(f"{MNT}/orders-0/values").read_bytes() == b"one\nunfinished\n"
    systemctl("kill", "--signal", str(int(signal.SIGKILL)), "--kill-who=main", UNIT)
    restarted = systemctl("restart", UNIT)  # where the dead mount still is
    assert (restarted.returncode, restarted.stderr) == (0, "")
    assert machine.path(f"{MNT}/orders-0/next").read_bytes() == b"2\n"

    held = os.open(machine.path(MNT), os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert systemctl("stop", UNIT).returncode == 0
        assert (shown("Result"), shown("ActiveState"), machine.mounted(MNT)) == ("success", "inactive", {})
    finally:
        os.close(held)
    assert machine.path(f"{LOG}/.kafka_cleanshutdown").exists()

    machine.path("/mnt/config/offsetfs/kafka.conf").write_text(f"LOGDIR=/mnt/none\nMNT={MNT}\n")
    assert systemctl("start", UNIT).returncode != 0 and shown("ExecMainStatus") == "1"


@pytest.mark.mount
@pytest.mark.parametrize("manager", ["system"], indirect=True)
def test_the_unit_of_the_system_takes_rights_away_that_a_mount_does_not_need(manager: Manager) -> None:
    assert manager.systemctl("start", UNIT).returncode == 0
    lines = Path(f"/proc/{manager.shown('MainPID')}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    capabilities = {number for number in range(64) if int(status["CapBnd"], 16) >> number & 1}
    assert capabilities == {0, 1, 2, 3, 21}  # CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, SYS_ADMIN
    shown = sorted(os.listdir(manager.machine.path(MNT)))
    assert shown == ["README", "orders-0", "topics"], "it is mounted where everybody sees it"


@pytest.mark.mount
def test_a_service_manager_starts_and_stops_a_broker(manager: Manager) -> None:
    port, serve = free_port(), "offsetfs-serve@kafka"
    manager.configure("serve-kafka", f"LOGDIR={LOG}\nOPTIONS=--listen 127.0.0.1:{port}\n")
    started = manager.systemctl("start", serve)
    assert (started.returncode, started.stderr) == (0, ""), manager.systemctl("status", serve).stdout
    assert manager.shown("StatusText", serve).startswith(f"{LOG} is served at 127.0.0.1:{port}: 1 partition")
    socket.create_connection(("127.0.0.1", port), timeout=30).close()
    assert manager.systemctl("stop", serve).returncode == 0
    assert (manager.shown("Result", serve), manager.shown("ExecMainStatus", serve)) == ("success", "0")
    assert manager.machine.path(f"{LOG}/.kafka_cleanshutdown").exists()


@pytest.mark.mount
def test_a_service_manager_keeps_a_table_until_it_stops_it(manager: Manager) -> None:
    table, machine = "offsetfs-table@kafka", manager.machine
    manager.configure("table-kafka", f"LOGDIR={LOG}\nURL=sqlite:///{ROWS}\nOPTIONS=--create\n")
    started = manager.systemctl("start", table)
    assert (started.returncode, started.stderr) == (0, ""), manager.systemctl("status", table).stdout
    appended = machine.run("sh", "-c", 'echo value | exec "$@"', "sh", *OFFSETFS, "append", LOG, "orders-0")
    assert (appended.returncode, appended.stderr) == (0, "")
    until = time.monotonic() + 60
    while (rows := machine.run(sys.executable, "-c", SHOW_ROWS, ROWS).stdout) != "[(b'value',)]\n":
        assert time.monotonic() < until, rows + manager.systemctl("status", table).stdout
        time.sleep(0.1)
    assert manager.systemctl("stop", table).returncode == 0
    assert (manager.shown("Result", table), manager.shown("ExecMainStatus", table)) == ("success", "0")
