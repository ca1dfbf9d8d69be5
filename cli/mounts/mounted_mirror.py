"""The mirror of `offsetfs mount kafka://…`: it writes the log directory of the mount, in its process."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from functools import partial

import trio

from offsetfs.cli import preflight
from offsetfs.cli.arguments.kafka_mounts import KafkaMount
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.mounts.mirror_caches import user_cache
from offsetfs.cli.mounts.mirroring_process import publish, withdraw
from offsetfs.fs.companion import CompanionReport, OnFault
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.kafka.client.errors import ClientError
from offsetfs.kafka.mirror.options import MirrorError
from offsetfs.kafka.mirror.process import MirrorBeside, cluster_id
from offsetfs.kafka.mirror.status import MirrorStatus
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import StorageError, sentence

_log = logging.getLogger(__name__)

_CURE = "offsetfs status MNT shows each partition"


class MountedMirror:
    """The mirror beside a mount (`fs.companion.MountCompanion`)."""

    name = "the mirror"

    def __init__(self, mount: KafkaMount, log_directory: str, warn: Callable[[str], None]) -> None:
        """`warn`: called with each event of `begin`."""
        self._log_directory = log_directory
        self._on_event = warn
        self._mirror = MirrorBeside(mount.source, self._event, self._publish)
        self._chosen = mount.source.options.topics

    def begin(self, directory: LogDirectory) -> None:
        """Connect to the cluster and create its topics in `directory`; `Failure`."""
        try:
            trio.run(self._mirror.begin, directory)
        except (ClientError, MirrorError, StorageError, OSError) as error:
            raise Failure(sentence(error)) from error
        mirrored = directory.mirror.topics if directory.mirror is not None else ()
        others = [topic for topic in mirrored if not any(pattern.fullmatch(topic) for pattern in self._chosen)]
        if others:
            listed = ", ".join(sorted(others))
            self._on_event(f"{listed}: in the cache, and not chosen by topic=; shown as of an earlier mount")

    async def run(self, directory: LogDirectory, on_fault: OnFault) -> None:
        """Mirror until `stop`. Errors are in the log and in `.offsetfs/errors`; the mount continues."""

        def event(text: str) -> None:
            _log.warning("%s", text)
            on_fault(Fault(None, "mirror", "", text, _CURE))

        self._on_event = event
        try:
            await self._mirror.run(directory)
        finally:
            withdraw()

    def stop(self) -> None:
        """Append nothing more, and let `run` return."""
        self._mirror.stop()

    async def report(self) -> CompanionReport | None:
        """Return the state of the mirror; None before it runs."""
        status = self._mirror.status
        return None if status is None else CompanionReport(status.lines, status.metrics)

    def _event(self, text: str) -> None:
        self._on_event(text)

    def _publish(self, status: MirrorStatus) -> None:
        with contextlib.suppress(OSError):  # the mirror continues without `offsetfs status`
            publish(self._log_directory, status)


def cache_directory(mount: KafkaMount, mount_point: str) -> str:
    """Return the path of the cache; create it. `Failure`. In the user cache its name is the id of the cluster."""
    path = mount.cache
    if path is None:
        try:
            cluster = trio.run(partial(cluster_id, mount.source))
        except ClientError as error:
            raise Failure(sentence(error)) from error
        path = user_cache(cluster or mount.source.text, "-o cache=DIR")
    path = os.path.realpath(path)
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise Failure(f"cache={path} is not a directory; give a new one, or that of a mirror", WRONG_CALL) from error
    except OSError as error:
        raise Failure(f"cache={path}: {error.strerror}; give a path where this user can write", WRONG_CALL) from error
    preflight.check_not_nested(path, mount_point)
    preflight.check_mirror(path)
    return path
