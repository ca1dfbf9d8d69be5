"""Maps each error of the engine to an errno: one table for all handlers of the mount.

A system call returns only the errno. The details (path, position, offset, remedy) go to
`.offsetfs/errors` (see `error_log`). An error class that is not listed takes the errno of its nearest listed ancestor.
"""

from __future__ import annotations

import errno

from offsetfs.storage import errors

ERRNO: dict[type[BaseException], int] = {
    # opening a directory
    errors.NotALogDirectory: errno.ENOTDIR,
    errors.LogDirectoryLocked: errno.EBUSY,
    errors.DuplicatePartition: errno.EEXIST,
    errors.InvalidCheckpoint: errno.EUCLEAN,
    errors.InvalidSnapshot: errno.EUCLEAN,
    # names and settings
    errors.InvalidName: errno.EINVAL,
    errors.InvalidConfig: errno.EINVAL,
    errors.UnknownPartition: errno.ENOENT,
    errors.PartitionExists: errno.EEXIST,
    # reading a log
    errors.OffsetOutOfRange: errno.ENOENT,
    errors.CorruptBatch: errno.EBADMSG,
    errors.MalformedBatch: errno.EUCLEAN,
    errors.UnsupportedFormat: errno.EOPNOTSUPP,
    errors.DecompressionLimit: errno.EFBIG,
    errors.RecordsLeftOut: errno.EIO,
    errors.WouldBlock: errno.EAGAIN,
    # writing a log
    errors.RecordTooLarge: errno.EMSGSIZE,
    errors.ReadOnlyLog: errno.EROFS,
    errors.UnrecoveredLog: errno.EUCLEAN,
    errors.LogFailed: errno.EIO,
    errors.PolicyViolation: errno.EPERM,
    errors.NoOffsetsTopic: errno.EPERM,
    errors.SegmentsChanged: errno.EAGAIN,
    # any other error of the engine
    errors.StorageError: errno.EIO,
    MemoryError: errno.ENOMEM,
}

_ANSWERS = frozenset(
    {errors.InvalidName, errors.OffsetOutOfRange, errors.UnknownPartition, errors.PartitionExists, errors.WouldBlock}
)
_ANSWER_ERRNOS = frozenset({errno.ENOENT, errno.EAGAIN, errno.EINTR, errno.ESTALE})


def is_fault(error: BaseException) -> bool:
    """Whether `error` belongs into `.offsetfs/errors`. Others only report that something does not exist, or not yet."""
    if isinstance(error, OSError):
        return error.errno not in _ANSWER_ERRNOS
    return type(error) not in _ANSWERS


def errno_of(error: BaseException) -> int:
    """Return the errno that a system call returns for `error`. EIO for an unexpected error."""
    if isinstance(error, OSError):
        return error.errno or errno.EIO
    for ancestor in type(error).__mro__:
        if ancestor in ERRNO:
            return ERRNO[ancestor]
    return errno.EIO


def name_of(number: int) -> str:
    """Return the name of an errno. Linux has two names for one number; this returns EOPNOTSUPP, not ENOTSUP."""
    return "EOPNOTSUPP" if number == errno.EOPNOTSUPP else errno.errorcode.get(number, str(number))


OF_MOUNT_README = "the README of the mount describes what the file accepts"
_PERMISSIONS = "give the user who runs offsetfs permissions on the log directory"
_CURES = {
    errno.ENOSPC: "free space on the disk of the log directory",
    errno.EDQUOT: "raise the quota of the disk of the log directory, or delete data",
    errno.EROFS: "mount without `-o ro`; if the disk is read-only, dmesg has the reason",
    errno.EIO: "repair the disk (dmesg has details), then mount again",
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EMFILE: "raise the limit of open files (ulimit -n, LimitNOFILE=)",
    errno.ENFILE: "raise the limit of open files (fs.file-max)",
    errno.ENOBUFS: "finish records before others are begun, or raise buffer-bytes",
    errno.ENOMEM: "give the mount more memory, or lower buffer-bytes",
    errno.EMSGSIZE: "raise `max.message.bytes` of the topic, or split the record",
    errno.ESHUTDOWN: "write again after the next mount",
    errno.EOVERFLOW: "`values`, `records.ndjson` and `range/` show records far behind the first",
    errno.ERANGE: "`start` and `next` of the partition have its range of offsets",
    errno.EINVAL: OF_MOUNT_README,
}


def cure_of(error: BaseException) -> str | None:
    """Return the remedy, from the docstring of the error's class or the table of errnos. None if there is none."""
    if isinstance(error, OSError):
        return _CURES.get(error.errno or 0)
    if not isinstance(error, errors.StorageError):
        return None
    _, separator, cure = (type(error).__doc__ or "").partition("Cure: ")
    return " ".join(cure.split()).rstrip(".") if separator else None
