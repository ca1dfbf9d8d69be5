"""What a mount leaves behind and what it says: files for their owner alone, and words without anybody's records.

Names, keys, values and lines come from people who may want a terminal to do what they write, or the next reader of a
log to see what was not for him. Nothing of it stands in the log of the daemon, in `.offsetfs`, or in `info`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.mount

SECRET = "only-the-owner-may-see-this"
COLOR = "\x1b[31m\x1b]0;title\x07"
HOSTILE = f"{COLOR}{SECRET}"
NAMES = ("a\x1b[2J-0", "b\n2026-11-21 ERROR forged-0", "\x7f\x9b31m-0", "ü\u202e-0", "x\r-0")


def quietly(act: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        act()


@pytest.mark.security(
    "Files that a mount creates in the log directory are accessible to their owner alone, whatever the umask."
)
def test_what_a_mount_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    log, point = tmp_path / "log", tmp_path / "mnt"
    log.mkdir()
    point.mkdir()
    offsetfs = f"{sys.executable} -m offsetfs"
    script = f"""
        umask 000
        {offsetfs} mount {log} {point} -o create,delete-records,segment.bytes=100 || exit 1
        mkdir {point}/orders-0
        for n in 1 2 3; do echo $n >> {point}/orders-0/append; done
        echo '{{"key":"k"}}' > {point}/orders-0/append.ndjson
        cat {point}/orders-0/by-key/none 2> /dev/null
        cat {point}/orders-0/values {point}/orders-0/records.ndjson > /dev/null
        echo 1 > {point}/orders-0/start
        {offsetfs} umount {point}
    """
    subprocess.run(["bash", "-c", script], check=True)
    made = [path for path in log.rglob("*") if not path.is_symlink()]
    assert len(made) > 8
    open_to_others = {str(path.relative_to(log)): stat.filemode(path.stat().st_mode) for path in made}
    assert {name: mode for name, mode in open_to_others.items() if mode[4:] != "------"} == {}


@pytest.mark.damages
@pytest.mark.security(
    "Logs and `.offsetfs` never contain a record, a key or a written line; only the name of a refused JSON field."
)
@pytest.mark.security("Control characters of records and names never reach a log, `.offsetfs` or `info`.")
def test_no_record_and_no_foreign_name_is_logged(mount: Any, lasting_copy: Path) -> None:
    mounted = mount(lasting_copy, "create,delete-records", faulty=True)
    tree: Path = mounted.path
    partition = tree / "keyed-0"
    record = f'{{"key":"{SECRET}","value":"{SECRET}","headers":[{{"key":"{SECRET}","value":"{SECRET}"}}]}}\n'
    (partition / "append.ndjson").write_text(record)
    (partition / "append").write_text(f"{HOSTILE}\n{HOSTILE}\n")
    for name in ("append.ndjson", "start", "append.raw"):
        for line in (f"{HOSTILE}\n", f'{{"key":"{HOSTILE}"}}\n', '{"fields":}\n', f'{{"value":"{SECRET}\x1b"}}\n'):
            quietly(partial((partition / name).write_text, line))
    for name in (*NAMES, COLOR, f"follow@{COLOR}", f"{COLOR}.json", f"by-key/{HOSTILE}", f"by-key/{HOSTILE}.json"):
        for directory in (tree, partition, *(partition / each for each in ("range", "last", "by-time"))):
            quietly((directory / name).stat)
            quietly((directory / name).mkdir)
            quietly(partial((directory / name).write_text, "x"))
    for name in ("flush", "log-level"):
        quietly(partial((tree / ".offsetfs" / name).write_text, f"{HOSTILE}\n"))
    end = int((partition / "next").read_text())
    shutil.rmtree(lasting_copy / "keyed-1")
    (lasting_copy / "keyed-1").mkdir()
    with open(lasting_copy / "keyed-0" / "00000000000000000000.log", "r+b") as segment:
        segment.seek(-10, os.SEEK_END)
        segment.write(b"\xff\xfe")
    for offset in range(end - 4, end):
        quietly((partition / str(offset)).read_bytes)
    reported = {
        name: (tree / ".offsetfs" / name).read_text() for name in ("errors", "stats", "metrics", "config", "version")
    }
    reported["info"] = (partition / "info").read_text()
    mounted.unmount()
    reported["the log"] = b"".join(mounted.lines).decode()
    assert "EBADMSG" in reported["errors"] and "EINVAL" in reported["errors"]
    for place, text in reported.items():
        assert SECRET not in text, f"{place}: {text}"
        strange = {character for line in text.splitlines() for character in line if not character.isprintable()}
        assert not strange and "\n2026-11-21 ERROR forged" not in text, f"{place}: {strange}"
