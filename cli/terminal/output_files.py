"""Files that a command writes as a whole: the old content stays until the new one is complete."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator

from offsetfs.cli.exit_codes import WRONG_CALL, Failure, of_output
from offsetfs.storage.directory import MARKER_FILES
from offsetfs.storage.segments import parse_segment_name


def is_special(output: str) -> bool:
    """Return whether a path is a device, a pipe or a socket. Failure for a directory."""
    try:
        mode = os.stat(output).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        raise Failure(f"{output} is a directory: give a file", WRONG_CALL)
    return not stat.S_ISREG(mode)


@contextlib.contextmanager
def replaced_file(output: str) -> Iterator[str]:
    """Yield a new file beside `output`, which takes its place at the end; after an error it is removed. `Failure`.

    Where `output` is a symbolic link, the file that it names is replaced, and the link stays. Access rights stay.
    A file in a log directory or the directory of a partition is refused: it may be a segment.
    """
    target = os.path.realpath(output)
    _check_outside_of_logs(output, target)
    path = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        with contextlib.suppress(FileNotFoundError):
            os.chmod(path, stat.S_IMODE(os.stat(target).st_mode))
        yield path
        os.replace(path, target)
    except OSError as error:
        raise Failure(f"{output}: {error.strerror or error}", of_output(error)) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _check_outside_of_logs(output: str, target: str) -> None:
    """`Failure` if a directory above `target` has segments or Kafka's checkpoints."""
    folder = os.path.dirname(target)
    while True:
        try:
            names = os.listdir(folder)
        except OSError:  # the file cannot be made there, or a directory above it cannot be listed
            names = []
        if any(name in MARKER_FILES or parse_segment_name(name) is not None for name in names):
            raise Failure(f"{output}: {folder} holds logs, which would be changed; give a file elsewhere", WRONG_CALL)
        if folder == (folder := os.path.dirname(folder)):
            return


def write_pieces(output: str, pieces: Iterable[bytes]) -> None:
    """Write `pieces` into a file, which is replaced when all are in it, or into a device or a pipe as they come."""
    if not is_special(output):
        with replaced_file(output) as path, open(path, "wb") as file:
            file.writelines(pieces)
        return
    try:
        with open(output, "wb") as target:
            target.writelines(pieces)
    except OSError as error:
        raise Failure(f"{output}: {error.strerror or error}", of_output(error)) from error
