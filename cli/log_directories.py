"""What LOGDIR stands for on a command line.

/var/lib/kafka/data                 a log directory
/disk1/kafka,/disk2/kafka           several, served as one
/etc/kafka/server.properties        those in `log.dirs` of a broker's settings, which hold as with --config
"""

from __future__ import annotations

import os

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.storage.directory.log_directories import split_paths
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import broker_settings, properties_file


def log_directories(text: str) -> list[str]:
    """Return the paths of the log directories that LOGDIR names. `Failure` when a file names none."""
    if not is_settings_file(text):
        return split_paths(text)
    try:
        named = broker_settings.log_directories(properties_file.read(text))
    except InvalidConfig as error:
        reason = f"{text}: is neither a log directory nor a server.properties: {error.reason}"
        raise Failure(reason, WRONG_CALL) from error
    except OSError as error:
        raise Failure(f"{text}: {error.strerror}", WRONG_CALL) from error
    if not named:
        raise Failure(f"{text}: is a file without log.dirs; give a log directory, or a server.properties", WRONG_CALL)
    return split_paths(named)


def is_settings_file(text: str) -> bool:
    """Whether LOGDIR names a file, which can only be a broker's settings."""
    return os.path.isfile(text)
