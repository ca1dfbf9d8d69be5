"""The systemd units: of mounts, and of the commands that run for years. Each for the system and for users.

The name of an instance can hold one path only; a command has several, and options. So an administrator writes

    /etc/offsetfs/kafka.conf            LOGDIR=/var/lib/kafka/data
                                        MNT=/mnt/kafka
                                        OPTIONS=ro
    /etc/offsetfs/archive-kafka.conf    LOGDIR=/var/lib/kafka/data
                                        URL=s3://bucket/kafka
                                        OPTIONS=--interval 10 --topic orders

and enables `offsetfs@kafka` and `offsetfs-archive@kafka`. systemd expands paths and URLs as whole words, so that blanks
in them need no quotes, and OPTIONS of a command into words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
# The network is for -o listen=, kafka:// and archives in object storage.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service @mount
SystemCallErrorNumber=EPERM
"""


@dataclass(frozen=True, slots=True)
class Service:
    """A command that runs until it is stopped, beside mounts. `words`: its arguments, as systemd expands them."""

    verb: str
    description: str
    words: str
    type: str
    """Of systemd.service(5): notify where the command reports that it is ready."""


SERVICES = (
    Service("serve", "Kafka log directory, served over the Kafka protocol", "serve $OPTIONS -- ${LOGDIR}", "notify"),
    Service("mirror", "Topics of a Kafka cluster, copied", "mirror $OPTIONS -- ${BROKERS} ${LOGDIR}", "exec"),
    Service("archive", "Kafka log directory, archived", "archive --follow $OPTIONS -- ${LOGDIR} ${URL}", "exec"),
    Service("table", "Topics as rows of a database", "table sync --follow $OPTIONS -- ${LOGDIR} ${URL}", "exec"),
)

_COMMAND_UNIT = """\
[Unit]
Description={description} as %E/offsetfs/{verb}-%i.conf says
Documentation=man:offsetfs-{verb}(1)
ConditionPathExists=%E/offsetfs/{verb}-%i.conf
Wants=network-online.target
After=network-online.target

[Service]
Type={type}
Environment=OPTIONS=
EnvironmentFile=%E/offsetfs/{verb}-%i.conf
ExecStart={command} {words}
# A recovery may take long before the start, and the last records before the end.
TimeoutStartSec=infinity
TimeoutStopSec=2min
# The unit goes on after an outage for which the command has given up.
Restart=on-failure
RestartSec=5s
UMask=0077
"""

_COMMAND_HARDENING = """
# Only the log directory has to be writable, whose place only the file above knows: ProtectSystem=strict with
# ReadWritePaths=, and User=, are for `systemctl edit`.
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_CHOWN CAP_FOWNER
ProtectSystem=full
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
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


def service_unit(service: Service, command: str, *, whose: str) -> str:
    """Return the unit of a command that runs until it is stopped. `whose`: system, or user for `systemctl --user`."""
    unit = _COMMAND_UNIT.format(
        description=service.description, verb=service.verb, words=service.words, type=service.type, command=command
    )
    if whose == "user":  # whose manager knows no target of the network
        unit = re.sub("(Wants|After)=network-online.target\n", "", unit)
        return unit + _INSTALL.format(target="default.target")
    return unit + _COMMAND_HARDENING + _INSTALL.format(target="multi-user.target")


def word(text: str) -> str:
    """Return `text` as one word of a command line in a unit."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if re.fullmatch(r"[A-Za-z0-9._/-]+", text) else f'"{escaped}"'
