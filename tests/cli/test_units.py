"""The systemd units: systemd finds nothing to say about them, and a real service manager gets on with them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from own_machine import Machine, own_machine

from offsetfs.cli.installed.contents import contents

MANAGER = "/lib/systemd/systemd"
CGROUPS = Path("/sys/fs/cgroup")
LOG, MNT = "/mnt/log", "/mnt/mnt"
UNIT = "offsetfs@kafka"


def unit(whose: str) -> str:
    made = {each.path: each.content for each in contents("/usr/local", sys.executable)}
    return made[f"/usr/local/lib/systemd/{whose}/offsetfs@.service"]


@pytest.mark.unit
@pytest.mark.parametrize("whose", ["system", "user"])
def test_systemd_reports_nothing_about_a_unit(whose: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze verifies units, and is not there")
    (tmp_path / "offsetfs@.service").write_text(unit(whose))
    command = ["systemd-analyze", f"--{whose}", "--man=no", "verify", f"{tmp_path}/offsetfs@.service"]
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

    def shown(self, name: str) -> str:
        return self.systemctl("show", UNIT, "--property", name, "--value").stdout.strip()


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
    """A manager that knows one of our units, and `kafka.conf`."""
    if not os.path.exists(MANAGER) or os.geteuid() != 0:
        pytest.skip(f"it takes root and {MANAGER}")
    with own_machine(tmp_path) as machine, own_cgroup() as groups, notified(tmp_path) as manager_is_ready:
        for path in (LOG, MNT, "/mnt/run", "/mnt/config/systemd/user", "/mnt/config/offsetfs", "/run/systemd/system"):
            machine.path(path).mkdir(parents=True)
        assert machine.offsetfs("create", LOG, "orders").returncode == 0
        machine.path("/mnt/config/systemd/user/offsetfs@.service").write_text(unit(request.param))
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
