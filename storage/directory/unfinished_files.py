"""Temporary files in a log directory, of writers that were killed before they renamed them (`files.replace_file`).

    recovery-point-offset-checkpoint.tmp …          checkpoints, the clean-shutdown file, credentials and ACLs
    .offsetfs-mirror.json.tmp, .offsetfs-….json.tmp the files of mirrors, loads and publications
    .offsetfs-topics.json.tmp                       settings of topics

The next writer removes them: at once if the directory was not closed cleanly, else before its first change. All but
the last are written by the holder of the directory's lock alone, which is this process. Settings are written by every
process that holds the flock of the directory, so theirs goes only while this process holds that. Others stay:
`.offsetfs-restore.json.tmp`, because `restore` writes it before it takes the lock; `meta.properties.tmp`, because
Kafka's `kafka-storage format` takes no lock; and files of other programs. Those in the directories of partitions are
removed by `recovery.leftover_files`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

from offsetfs.storage import files
from offsetfs.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    LOGIN_SECRET_FILE,
    RECOVERY_POINTS,
    SECURITY_FILE,
)
from offsetfs.storage.directory.directory_listing import RESTORE_JOURNAL
from offsetfs.storage.recovery import leftover_files
from offsetfs.storage.settings.topic_settings import TOPICS

ENDING = ".tmp"
_LOCKED = (
    RECOVERY_POINTS,
    LOG_STARTS,
    HIGH_WATERMARKS,
    CLEANER_OFFSETS,
    CLEAN_SHUTDOWN,
    SECURITY_FILE,
    LOGIN_SECRET_FILE,
)


def unfinished(names: Iterable[str]) -> list[str]:
    """Return those of the names in a log directory that are temporary files of killed writers, sorted."""
    return sorted(name for name in names if name.endswith(ENDING) and _is_ours(name.removesuffix(ENDING)))


def _is_ours(name: str) -> bool:
    if name in _LOCKED:
        return True
    return name.startswith(".offsetfs-") and name.endswith(".json") and name != RESTORE_JOURNAL


def removal(path: str) -> Callable[[], None]:
    """Return a function that removes the temporary files that are in the directory `path` now, and no later ones.

    For the holder of the directory's lock. It raises nothing: a file that cannot be removed stays and is harmless.
    """
    present = [os.path.join(path, name) for name in unfinished(files.names(path))]
    settings = os.path.join(path, TOPICS + ENDING)
    remove_others = leftover_files.deferred_removal(temporary for temporary in present if temporary != settings)
    remove_settings = leftover_files.deferred_removal([settings] if settings in present else [])

    def remove() -> None:
        remove_others()
        if settings in present:
            # Without waiting: a process that changes settings now replaces the file itself.
            with contextlib.suppress(OSError), files.locked_directory(path, wait=False):
                remove_settings()

    return remove
