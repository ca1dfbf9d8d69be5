"""Readers of what grows, on a real mount, while it grows and others ask for its size."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.mount

READING = """
import os, sys
file, size = os.open(sys.argv[1], os.O_RDONLY), 0
while size < int(sys.argv[2]):
    block = os.read(file, 1 << 16)
    size += os.write(1, block)
    block or os.fstat(file)
"""
LOOKING = """
import os, sys
while True:
    os.stat(sys.argv[1])
"""
LINES = 1000
"""A hundred were enough where reads went through the page cache."""


@contextmanager
def running(program: str, *words: str, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", program, *words], **how) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.promise(
    "Readers of a growing file get the bytes of the log and no others, however many processes read "
    "it and ask for its size."
)
@pytest.mark.parametrize("name", ["values", "records.ndjson", "segments/00000000000000000000.log"])
def test_readers_of_what_grows_never_get_padding(mount: Callable[..., Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "log").mkdir()
    orders = mount(tmp_path / "log", "create,linger-ms=0").path / "orders-0"
    orders.mkdir()
    path, outputs = orders / name, [tmp_path / "one", tmp_path / "two"]
    (orders / "append").write_bytes(b"the first line\n")
    with ExitStack() as stack:
        for _ in outputs:
            stack.enter_context(running(LOOKING, str(path)))
        append = stack.enter_context(open(orders / "append", "ab", buffering=0))
        size = 64 * LINES  # of each view; it will be more
        readers = []
        for output in outputs:
            file = stack.enter_context(output.open("wb"))
            readers.append(stack.enter_context(running(READING, str(path), str(size), stdout=file)))
        number = 0
        while path.stat().st_size < size:
            number += 1
            append.write(b"line %d of many that come one by one while others read\n" % number)
        assert [reader.wait(30) for reader in readers] == [0, 0]
    whole = path.read_bytes()
    for output in outputs:
        read = output.read_bytes()
        assert len(read) >= size and whole.startswith(read)
