"""Nothing in the engine touches the disk but `storage/files.py`, and the lock of a directory.

What tests/fixtures/simulation/simdisk.py simulates is all there is: a call that went around the seam would never meet
a fault.
"""

import ast
import os
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

STORAGE = Path(__file__).parents[2] / "storage"
SEAM = {"files.py", "lock.py"}
NO_DISK = {"thread_start.py": "mmap"}
"""A module that uses a forbidden one, but no file: it maps anonymous memory."""
OWN_INPUT_AND_OUTPUT = {"views/key_store.py": "sqlite3"}
"""A module whose files another library reads and writes: what they hold is never trusted after a crash, so no fault
that the simulated disk could meet it with would differ from one that it meets anyway
(docs/internals/decisions/0013)."""
FORBIDDEN_MODULES = {
    "mmap",
    "tempfile",
    "shutil",
    "pathlib",
    "io",
    "fcntl",
    "glob",
    "fileinput",
    "subprocess",
    "socket",
    "sqlite3",
}
ALLOWED_OF_OS = {"environ", "path", "sep", "fsdecode", "fspath", "urandom"}
ALLOWED_OF_PATH = {"abspath", "join", "basename", "dirname", "relpath", "splitext"}


OPEN_OR_CREATE = {"segments/segment_files.py", "views/key_store.py", "segments/index_file.py", "files.py"}
"""Where a file that is there already is opened for writing: an index that goes on, a table that is taken over."""

OPENS_OR_CREATES = re.compile(r"\bcreate=True")


def test_every_other_file_is_new_so_that_no_planted_link_is_written_through() -> None:
    found = {
        os.fspath(path.relative_to(STORAGE))
        for path in STORAGE.rglob("*.py")
        if OPENS_OR_CREATES.search(path.read_text())
    }
    assert found <= OPEN_OR_CREATE


def touches(source: str) -> list[str]:
    """Return what in a module's source may touch the disk, with line numbers."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [(node.lineno, n.name) for n in names if n.name.split(".")[0] in FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES | {"os"}:
                found.append((node.lineno, f"from {module}"))
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name not in ALLOWED_OF_OS:
                found.append((node.lineno, f"os.{name}"))
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr=name):
                if name not in ALLOWED_OF_PATH:
                    found.append((node.lineno, f"os.path.{name}"))
            case ast.Call(func=ast.Name(id="open")):
                found.append((node.lineno, "open()"))
    return [f"line {line}: {what}" for line, what in found]


MODULES = sorted(str(p.relative_to(STORAGE)) for p in STORAGE.rglob("*.py") if str(p.relative_to(STORAGE)) not in SEAM)


def test_every_package_is_looked_at() -> None:
    packages = {p.parent.name for p in STORAGE.glob("*/__init__.py")}
    assert packages and packages == {module.split("/")[0] for module in MODULES if "/" in module}


@pytest.mark.long
@pytest.mark.parametrize("module", MODULES)
def test_a_module_goes_through_the_seam(module: str) -> None:
    allowed = {**OWN_INPUT_AND_OUTPUT, **NO_DISK}.get(module)
    assert [each for each in touches((STORAGE / module).read_text()) if not each.endswith(f": {allowed}")] == []


def test_what_is_excepted_is_there() -> None:
    for module, library in OWN_INPUT_AND_OUTPUT.items():
        assert any(each.endswith(library) for each in touches((STORAGE / module).read_text()))


ROUNDABOUT = {
    "stat": "import os\nos.stat('x')",
    "isdir": "import os\nos.path.isdir('x')",
    "open": "open('x')",
    "from os": "from os import stat",
    "mmap": "import mmap",
    "a path": "from pathlib import Path",
}


@pytest.mark.parametrize("source", ROUNDABOUT.values(), ids=ROUNDABOUT)
def test_what_goes_around_it_is_seen(source: str) -> None:
    assert touches(source)
