"""Small disks of real file systems, in files, that can be filled, cut off from power and snapshot.

A disk is mounted through a loop device that the kernel gives back with the unmount, so that nothing is left behind
where a test ends, however it ends in order. Its image lies in memory where there is space: the tests wait for the file
system, not for the machine's own disk. Needs root.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_SHUT_DOWN = 0x8004587D  # FS_IOC_GOINGDOWN, which `xfs_io -x -c shutdown` sends, to ext4 too
_WITH_LOG, _WITHOUT_LOG = 1, 2
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 1 << 30
_TRIES_MAX = 3000
"""A minute. Another test may begin a mount namespace while the disk is mounted, which keeps it mounted as long as it
lives."""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """How a file system is made and mounted."""

    make: tuple[str, ...]
    options: str = "rw"
    size: int = 48 << 20


SMALL = FileSystem(("mkfs.ext4", "-q", "-F", "-m", "0"), size=16 << 20)
"""A disk of 16 MB that is easily full; nothing on it is kept for root."""

EXT4 = ("mkfs.ext4", "-q", "-F")
XFS = ("mkfs.xfs", "-q", "-f")
FILE_SYSTEMS = {
    "ext4 data=ordered": FileSystem(EXT4, "data=ordered"),
    "ext4 data=journal": FileSystem(EXT4, "data=journal"),
    "ext4 data=writeback": FileSystem(EXT4, "data=writeback"),
    "ext4 with blocks of 1 KiB": FileSystem((*EXT4, "-b", "1024"), "data=ordered"),
    "xfs": FileSystem(XFS, "nouuid", 300 << 20),  # mkfs.xfs makes none below; nouuid: a copy may be mounted beside it
}
NEEDS = ("root", "loop", "mkfs.ext4", "mkfs.xfs")


class Disk:
    """An image with a file system, and the place where it is mounted, or not. Use `made`."""

    def __init__(self, system: FileSystem, image: Path, path: Path) -> None:
        self.system = system
        self.image = image
        self.path = path
        self._is_mounted = False  # a stat of an XFS without power is an error, and says nothing

    @property
    def log(self) -> Path:
        """The log directory on it."""
        return self.path / "log"

    def mount(self) -> None:
        """Mount it, which replays the journal after a power cut."""
        _run("mount", "-o", f"loop,{self.system.options}", self.image, self.path)
        self._is_mounted = True
        self.log.mkdir(exist_ok=True)

    def unmount(self) -> None:
        """Unmount it, if it is mounted; what is in the page cache goes to the image, unless the power was cut.

        The image is unused after return. RuntimeError where a new mount namespace keeps the
        disk in it: a second mount would be of a disk that changes by itself.
        """
        if self._is_mounted:
            _until(lambda: _succeeds("umount", self.path), f"{self.path} is busy")
        self._is_mounted = False
        _until(self._is_free, f"{self.image} is still mounted, perhaps in another mount namespace")

    def _is_free(self) -> bool:
        """Whether the kernel has given the loop device back, which it does a moment after the unmount."""
        return str(self.image) not in {_text(file) for file in Path("/sys/block").glob("loop*/loop/backing_file")}

    def cut(self, *, with_log: bool) -> None:
        """Cut the power: nothing that is not on disk gets there any more, but, `with_log`, the journal as it stands.

        With it, names and sizes are on disk whose data is not.
        """
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, _SHUT_DOWN, struct.pack("I", _WITH_LOG if with_log else _WITHOUT_LOG))
        finally:
            os.close(folder)

    def write_back(self) -> None:
        """Put everything on disk that is in the page cache, as the kernel does now and then."""
        _run("sync", "-f", self.path)

    def close(self) -> None:
        try:
            self.unmount()
        except RuntimeError:
            subprocess.run(["umount", "-l", self.path], check=False)  # gone when the last user is; the error stays one
            raise


@contextmanager
def memory(scratch: Path) -> Iterator[Path]:
    """A directory in memory where there is some, else in `scratch`; what a finding leaves in it comes to `scratch`."""
    has_space = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _MEMORY_BYTES_MIN
    folder = Path(tempfile.mkdtemp(prefix="offsetfs-crash-", dir=_MEMORY if has_space else scratch))
    try:
        yield folder
    except AssertionError:
        subprocess.run(["cp", "-a", "--sparse=always", folder, scratch / "found"], check=False)
        raise
    finally:
        shutil.rmtree(folder)


@contextmanager
def made(system: FileSystem, scratch: Path, *, images: Path | None = None) -> Iterator[Disk]:
    """A new disk, mounted below `scratch`, its image in `images` (left out: in memory); unmounted at the end."""
    with ExitStack() as stack:
        folder = images or stack.enter_context(memory(scratch))
        disk = Disk(system, folder / "image", scratch / "disk")
        with disk.image.open("wb") as image:
            image.truncate(system.size)
        _run(*system.make, disk.image)
        disk.path.mkdir()
        stack.callback(disk.close)
        disk.mount()
        yield disk


@contextmanager
def small_memory(scratch: Path, size: int = SMALL.size) -> Iterator[Disk]:
    """A file system in memory as small as `SMALL`, or of `size` bytes; it does not outlive its unmount."""
    disk = Disk(FileSystem(()), scratch / "none", scratch / "disk")
    disk.path.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk.path)
    try:
        disk.log.mkdir()
        yield disk
    finally:
        _until(lambda: _succeeds("umount", disk.path), f"{disk.path} is busy")


def _until(is_done: Callable[[], bool], complaint: str) -> None:
    for _ in range(_TRIES_MAX):
        if is_done():
            return
        time.sleep(0.02)
    raise RuntimeError(complaint)


def _succeeds(*command: str | Path) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # gone meanwhile
        return ""


def _run(*command: str | Path) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr)
        raise
