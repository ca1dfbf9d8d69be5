"""The seam to the disk: what it refuses, and whose the files are."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetfs.storage import files
from offsetfs.storage.errors import WouldBlock

pytestmark = pytest.mark.unit


@pytest.mark.security(
    "A link, FIFO, socket, device or directory in place of a file is never followed, waited for or written through."
)
def test_a_planted_link_or_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"regular|symbolic"):
            files.open_file(str(tmp_path / name))


def test_a_replaced_file_keeps_its_mode_and_leaves_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_text("old, and longer than the new")
    path.chmod(0o604)
    files.replace_file(str(path), b"new")
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o604
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.security("Files that root creates in the directory of another user belong to that user.")
def test_what_root_makes_belongs_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    owner = 12345 if os.geteuid() == 0 else os.geteuid()  # only root can give files away
    if os.geteuid() == 0:
        os.chown(tmp_path, owner, owner)
    files.open_file(str(tmp_path / "a"), create=True).close()
    files.replace_file(str(tmp_path / "b"), b"x")
    files.make_directory(str(tmp_path / "c"))
    assert {p.stat().st_uid for p in tmp_path.iterdir()} == {owner}


def test_a_giant_in_the_place_of_a_small_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="larger than"):
        files.read_file(str(path))


def test_nowait_reads_what_the_page_cache_holds(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"abc" * 1000)
    with files.open_file(str(path)) as file:
        file.read(0, 3000)
        try:
            assert file.read(0, 3000, nowait=True) == b"abc" * 1000
        except WouldBlock as error:
            assert error.reason == "the file system does not support RWF_NOWAIT"
        assert file.read(2990, 100) == b"cabcabcabc"


def test_a_python_without_rwf_nowait_reads_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_NOWAIT", None)
    path = tmp_path / "log"
    path.write_bytes(b"abc")
    with files.open_file(str(path)) as file:
        assert file.read(0, 3) == b"abc"
        assert not file.is_cached(0, 3)
        with pytest.raises(WouldBlock, match="does not know RWF_NOWAIT"):
            file.read(0, 3, nowait=True)


@pytest.mark.security(
    "A temporary file is always a new file: a hard or symbolic link planted in its place is removed, "
    "and the target of the link is not changed."
)
@pytest.mark.parametrize("plant", [os.link, os.symlink])
def test_a_planted_link_in_the_place_of_a_new_file_is_removed(
    tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of another user")
    for name in ("checkpoint.tmp", "0.log.cleaned"):
        plant(secret, tmp_path / name)
    files.replace_file(str(tmp_path / "checkpoint"), b"new")
    with files.created(str(tmp_path / "0.log.cleaned")) as file:
        file.write(0, b"records")
    assert secret.read_text() == "of another user" and secret.stat().st_nlink == 1
    assert (tmp_path / "checkpoint").read_bytes() == b"new" and (tmp_path / "0.log.cleaned").read_bytes() == b"records"


def test_a_directory_in_the_place_of_a_new_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.tmp").mkdir()
    with pytest.raises(OSError, match=r"directory|permitted"):
        files.replace_file(str(tmp_path / "checkpoint"), b"new")


def test_a_file_that_has_other_names_is_not_given_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "empty").touch()
    before = (tmp_path / "empty").stat().st_uid
    os.link(tmp_path / "empty", theirs / "0.index")
    if os.geteuid() == 0:
        os.chown(theirs, 12345, 12345)
    files.open_file(str(theirs / "0.index"), create=True).close()
    assert (tmp_path / "empty").stat().st_uid == before
