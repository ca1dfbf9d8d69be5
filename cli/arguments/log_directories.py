"""Resolves LOGDIR on a command line to paths of log directories.

/var/lib/kafka/data                 a log directory
/disk1/kafka,/disk2/kafka           several log directories, shown as one tree
s3://bucket/kafka                   an archive in object storage, for reading
/etc/kafka/server.properties        `log.dirs` of a broker's settings; its other settings apply as with --config
"""

from __future__ import annotations

import os

from offsetfs.cli.arguments.archives import is_archive
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.storage.directory import split_paths
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import log_directories_of, read_properties_file


def log_directories(text: str) -> list[str]:
    """Return the paths of the log directories in LOGDIR. `Failure` for a file without `log.dirs`."""
    if is_archive(text):
        from offsetfs.archive import urls

        return [urls.normalized(text)]
    if not is_settings_file(text):
        return split_paths(text)
    try:
        named = log_directories_of(read_properties_file(text))
    except InvalidConfig as error:
        reason = f"{text}: is neither a log directory nor a valid server.properties: {error.reason}"
        raise Failure(reason, WRONG_CALL) from error
    except OSError as error:
        raise Failure(f"{text}: {error.strerror}", WRONG_CALL) from error
    if not named:
        raise Failure(f"{text}: this file has no log.dirs; give a log directory or a server.properties", WRONG_CALL)
    return split_paths(named)


def is_settings_file(text: str) -> bool:
    """Whether LOGDIR is a file, and therefore a broker's settings."""
    return os.path.isfile(text)
