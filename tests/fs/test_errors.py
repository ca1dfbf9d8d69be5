"""Each error has an errno, and `.offsetfs/errors` describes it."""

import errno
import inspect

import pytest

from offsetfs.fs.reporting.error_log import LINES_MAX, ErrorLog, Fault
from offsetfs.fs.reporting.errors import ERRNO, cure_of, errno_of, is_fault
from offsetfs.storage import errors

pytestmark = pytest.mark.unit

EVERY_CLASS = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.StorageError)]


def made(cls: type[errors.StorageError]) -> errors.StorageError:
    return errors.OffsetOutOfRange(7, 0, 7) if cls is errors.OffsetOutOfRange else cls("reason")


@pytest.mark.parametrize("cls", EVERY_CLASS, ids=lambda cls: cls.__name__)
def test_every_error_of_the_engine_has_an_errno(cls: type[errors.StorageError]) -> None:
    assert errno_of(made(cls)) in errno.errorcode


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.CorruptBatch("crc"), errno.EBADMSG),
        (errors.MalformedBatch("size"), errno.EUCLEAN),
        (errors.UnsupportedFormat("codec 7"), errno.EOPNOTSUPP),
        (errors.OffsetOutOfRange(9, 0, 5), errno.ENOENT),
        (errors.RecordTooLarge("large"), errno.EMSGSIZE),
        (errors.LogFailed("failed"), errno.EIO),
        (OSError(errno.ENOSPC, "full"), errno.ENOSPC),
        (OSError("no number"), errno.EIO),
        (ZeroDivisionError(), errno.EIO),
    ],
    ids=lambda value: value.__class__.__name__ if isinstance(value, Exception) else errno.errorcode[value],
)
def test_the_errno_names_the_cause(error: Exception, expected: int) -> None:
    assert errno_of(error) == expected


def test_a_subclass_takes_the_errno_of_its_nearest_ancestor() -> None:
    class CutBatch(errors.CorruptBatch):
        pass

    assert errno_of(CutBatch("short")) == ERRNO[errors.CorruptBatch]


@pytest.mark.parametrize("cls", EVERY_CLASS, ids=lambda cls: cls.__name__)
def test_every_fault_has_a_cure(cls: type[errors.StorageError]) -> None:
    if cls is not errors.StorageError and is_fault(made(cls)):
        assert cure_of(made(cls))


def test_a_line_has_op_path_cause_and_cure_whatever_went_wrong() -> None:
    error_log = ErrorLog(now=lambda: 0.0)
    error_log.add(OSError(errno.ENOSPC, "No space left on device", "/log/a-0/0.log"), "write", "a-0/append")
    error_log.add(ZeroDivisionError("division by zero"), "getattr", "a-0/7")
    error_log.add(errors.MalformedBatch("size", path="/log/a-0/0.log", position=9), "read", "/log/a-0/0.log")
    error_log.report(Fault(None, "retention", "a-0", "no clock", "wind it"))
    error_log.report(Fault(None, "retention", "", "no clock", "wind it"))
    assert error_log.count == 5
    assert error_log.text().decode().replace("1970-01-01T00:00:00.000Z ", "").splitlines() == [
        "ENOSPC write a-0/append: /log/a-0/0.log: No space left on device; free space on the disk of the log directory",
        "EIO getattr a-0/7: division by zero; the log of the mount has details",
        "EUCLEAN read /log/a-0/0.log: position 9: size; "
        "the raw bytes are in `segments/`; the records around it are readable",
        "- retention a-0: no clock; wind it",
        "- retention -: no clock; wind it",
    ]


def test_the_cure_comes_from_the_class() -> None:
    assert cure_of(errors.ReadOnlyLog("")) == "mount without `-o ro`"
    assert cure_of(errors.OffsetOutOfRange(1, 2, 3)) is None
    assert cure_of(ValueError()) is None


def fault(cause: str) -> Fault:
    return Fault(errno.EIO, "read", "a-0/7", cause, "wait")


def error_log_at(*seconds: float) -> ErrorLog:
    clock = iter(seconds)
    return ErrorLog(now=lambda: next(clock))


def test_a_line_states_when_errno_place_and_cure() -> None:
    error_log = error_log_at(1795253676.125)
    number = error_log.add(
        errors.CorruptBatch("checksum", path="/log/a-0/0.log", position=120, offset=7), "read", "a-0/7"
    )
    assert number == errno.EBADMSG
    assert error_log.text().decode() == (
        "2026-11-21T09:34:36.125Z EBADMSG read a-0/7: /log/a-0/0.log, position 120, offset 7: checksum; "
        "the raw bytes are in `segments/`; the records around it are readable\n"
    )


def test_the_same_fault_again_is_counted_and_moves_to_the_end() -> None:
    error_log = error_log_at(0, 1, 2)
    for text in ("one", "two", "one"):
        error_log.report(fault(text))
    lines = [line.split(" ", 1) for line in error_log.text().decode().splitlines()]
    assert lines == [
        ["1970-01-01T00:00:01.000Z", "EIO read a-0/7: two; wait"],
        ["1970-01-01T00:00:02.000Z", "EIO read a-0/7: one; wait (2 times)"],
    ]


def test_only_the_newest_lines_are_kept() -> None:
    error_log = ErrorLog(now=lambda: 0.0)
    for number in range(LINES_MAX + 5):
        error_log.report(fault(f"line {number}"))
    lines = error_log.text().decode().splitlines()
    assert len(lines) == LINES_MAX
    assert lines[0].endswith("line 5; wait") and lines[-1].endswith(f"line {LINES_MAX + 4}; wait")


def test_control_characters_and_endless_names_do_not_reach_a_terminal() -> None:
    error_log = ErrorLog(now=lambda: 0.0)
    error_log.report(fault("a\x1b[31m\nb" + "x" * 5000))
    text = error_log.text().decode()
    assert text.count("\n") == 1 and "\x1b" not in text and "\\x1b[31m\\nb" in text
    assert len(text) < 1100
