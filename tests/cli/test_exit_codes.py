"""The exit codes of errors of the system, of disks and of object storage: the same cause has the same code."""

from __future__ import annotations

import errno
import os

import pytest

from offsetfs.archive.store_errors import MissingBucket
from offsetfs.cli import exit_codes
from offsetfs.cli.arguments.archives import exit_code

pytestmark = pytest.mark.unit

URL = "s3://backup/kafka"


@pytest.mark.parametrize(
    ("number", "about", "code"),
    [
        (errno.EACCES, URL, exit_codes.WRONG_CALL),
        (errno.ENOTEMPTY, URL, exit_codes.WRONG_CALL),
        (errno.ENOTSUP, URL, exit_codes.WRONG_CALL),
        (errno.EINVAL, URL, exit_codes.WRONG_CALL),
        (errno.ENOENT, URL, exit_codes.WRONG_CALL),
        (errno.ENOENT, "s3://backup", exit_codes.WRONG_CALL),
        (errno.ENOENT, f"{URL}/orders-0/7", exit_codes.FAILED),
        (errno.EINVAL, f"{URL}/orders-0/7", exit_codes.FAILED),
        (errno.EINVAL, "/restored/restore-journal", exit_codes.FAILED),
        (errno.EEXIST, "/restored/orders-0", exit_codes.FAILED),
        (errno.ESTALE, URL, exit_codes.FAILED),
        (errno.EIO, URL, exit_codes.SYSTEM),
        (errno.ENOSPC, "/restored", exit_codes.SYSTEM),
    ],
)
def test_an_error_of_an_archive_has_the_code_of_its_cause(number: int, about: str, code: int) -> None:
    for url in URL, f"{URL}/":
        assert exit_code(OSError(number, os.strerror(number), about), url) == code


def test_a_missing_bucket_is_a_wrong_call_whatever_object_was_asked_for() -> None:
    error = MissingBucket(errno.ENOENT, "there is no such bucket", f"{URL}/offsetfs-archive.json")
    assert exit_code(error, URL) == exit_codes.WRONG_CALL


def test_a_missing_permission_is_a_wrong_call_for_every_command() -> None:
    for number, code in (
        (errno.EACCES, exit_codes.WRONG_CALL),
        (errno.EPERM, exit_codes.WRONG_CALL),
        (errno.ENOSPC, exit_codes.SYSTEM),
        (errno.EIO, exit_codes.SYSTEM),
    ):
        assert exit_codes.of_os_error(OSError(number, os.strerror(number))) == code
        assert exit_codes.of_output(OSError(number, os.strerror(number))) == code
    assert exit_codes.of_output(FileNotFoundError(errno.ENOENT, "No such file or directory")) == exit_codes.WRONG_CALL
