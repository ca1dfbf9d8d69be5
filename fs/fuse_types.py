"""The types of pyfuse3 that handlers use; where pyfuse3 is not installed, types of the same form.

pyfuse3 is the extra `mount`, because installing it takes a C compiler and the headers of libfuse. Commands that use the
tree without a mount (`cat`, `ls`, `append`, `follow`) call the same handlers; they need these types, no more.
"""

from __future__ import annotations

import errno
import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING or importlib.util.find_spec("pyfuse3"):
    from pyfuse3 import ENOATTR as ENOATTR
    from pyfuse3 import ROOT_INODE as ROOT_INODE
    from pyfuse3 import EntryAttributes as EntryAttributes
    from pyfuse3 import FileInfo as FileInfo
    from pyfuse3 import FUSEError as FUSEError
    from pyfuse3 import Operations as Operations
    from pyfuse3 import PollHandle as PollHandle
    from pyfuse3 import ReaddirToken as ReaddirToken
    from pyfuse3 import RequestContext as RequestContext
    from pyfuse3 import SetattrFields as SetattrFields
    from pyfuse3 import StatvfsData as StatvfsData
    from pyfuse3 import readdir_reply as readdir_reply
else:
    ENOATTR = errno.ENODATA
    ROOT_INODE = 1

    class FUSEError(Exception):
        """An error number that a handler answers."""

        def __init__(self, errno: int) -> None:
            super().__init__(errno)
            self.errno = errno

    class EntryAttributes:
        """The attributes of a file: as in `os.stat_result`, and how many seconds the kernel may keep them."""

        def __init__(self) -> None:
            self.st_ino = self.st_mode = self.st_nlink = self.st_uid = self.st_gid = self.st_size = 0
            self.st_blksize = self.st_blocks = self.st_atime_ns = self.st_ctime_ns = self.st_mtime_ns = 0
            self.generation = 0
            self.attr_timeout = self.entry_timeout = 300.0

    class FileInfo:
        """An opened file: its handle, and how the kernel caches it."""

        def __init__(
            self, fh: int = 0, direct_io: bool = False, keep_cache: bool = True, nonseekable: bool = False
        ) -> None:
            self.fh, self.direct_io, self.keep_cache, self.nonseekable = fh, direct_io, keep_cache, nonseekable

    class StatvfsData:
        """The sizes of a file system, in blocks."""

        def __init__(self) -> None:
            self.f_bsize = self.f_frsize = self.f_blocks = self.f_bfree = self.f_bavail = 0
            self.f_files = self.f_ffree = self.f_favail = self.f_namemax = 0

    class Operations:
        """The handlers of a mount."""

    # Only the kernel has these.
    PollHandle = ReaddirToken = RequestContext = SetattrFields = readdir_reply = None
