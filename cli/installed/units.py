"""The systemd units: `offsetfs@NAME.service`, one for the system, one for users, `NAME.conf` says what to mount.

The name of an instance can hold one path only; a mount has two, and options. So an administrator writes

    /etc/offsetfs/kafka.conf        LOGDIR=/var/lib/kafka/data
                                    MNT=/mnt/kafka
                                    OPTIONS=ro

and enables `offsetfs@kafka`. systemd expands the three as whole words, so that blanks in paths need no quotes.
"""

from __future__ import annotations

import re

_UNIT = """\
[Unit]
Description=Kafka log directory, mounted as %E/offsetfs/%i.conf says
Documentation=man:offsetfs-mount(1) man:mount.offsetfs(8)
ConditionPathExists=%E/offsetfs/%i.conf
"""

_SERVICE = """
[Service]
# Ready when the mount answers: the log is open, and recovered if it has to be. A long recovery or drain asks for more
# time as long as it gets on.
Type=notify
NotifyAccess=main
Environment=OPTIONS=
EnvironmentFile=%E/offsetfs/%i.conf
ExecStart={command} mount -f -o ${{OPTIONS}} -- ${{LOGDIR}} ${{MNT}}
# Waits until everything is on disk. Where it cannot, because the mount is in use, SIGTERM drains as well.
ExecStop=-{command} umount -- ${{MNT}}
KillMode=mixed
TimeoutStartSec=2min
TimeoutStopSec=2min
# A daemon that was killed leaves a dead mount, which the next start takes away.
Restart=on-failure
RestartSec=2s
UMask=0077
"""

_HARDENING = """
# Nothing here may give the service a mount namespace of its own (ProtectSystem=, PrivateTmp=, ReadWritePaths=, …): what
# it mounts would be invisible elsewhere. Where User= is set, fusermount3 has to become root: set NoNewPrivileges=no
# and clear the lines below it, which would set it again.
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_CHOWN CAP_FOWNER
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service @mount
SystemCallErrorNumber=EPERM
"""

_INSTALL = """
[Install]
WantedBy={target}
"""


def system_unit(command: str) -> str:
    """Return the unit of the system; `command`: how `offsetfs` is called, as words of a unit."""
    return _UNIT + _SERVICE.format(command=command) + _HARDENING + _INSTALL.format(target="multi-user.target")


def user_unit(command: str) -> str:
    """Return the unit for `systemctl --user`. It mounts through fusermount3, which must be able to become root."""
    return _UNIT + _SERVICE.format(command=command) + _INSTALL.format(target="default.target")


def word(text: str) -> str:
    """Return `text` as one word of a command line in a unit."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if re.fullmatch(r"[A-Za-z0-9._/-]+", text) else f'"{escaped}"'
