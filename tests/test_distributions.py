"""The source distribution and the wheel: what they contain, and that the wheel works without the checkout.

Both are built as `python -m build` builds them, in an environment of their own. The wheel is installed in a new virtual
environment; its commands run in another directory. All packages come in the versions of scripts/constraints.txt.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "docs",
    "scripts",
    "tests",
    *sorted(link.name for link in (ROOT / "src" / "offsetfs").glob("*") if link.is_symlink()),
)
GENERATED = {".so", ".c", ".pyc"}

pytestmark = [pytest.mark.mount, pytest.mark.long]


def environment(**more: str) -> dict[str, str]:
    """Return the environment without what could lead a process into the checkout or its virtual environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    kept["PATH"] = os.pathsep.join(p for p in kept["PATH"].split(os.pathsep) if not Path(p).is_relative_to(ROOT))
    return kept | {"PIP_CONSTRAINT": str(ROOT / "scripts" / "constraints.txt"), "PIP_NO_INPUT": "1"} | more


def run(*command: str | Path, cwd: Path, text: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=cwd, env=environment(**more), input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


# --- what is built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the source distribution of this checkout and the wheel that was built from it."""
    place = tmp_path_factory.mktemp("dist")
    as_released = {"CFLAGS": "-g0", "LDFLAGS": "-s"}  # without debug information, see scripts/release
    run(sys.executable, "-m", "build", "--outdir", place, ROOT, cwd=place, **as_released)
    return place


def only(place: Path, pattern: str) -> Path:
    (found,) = place.glob(pattern)
    return found


def test_the_source_distribution_has_code_docs_scripts_and_tests(built: Path) -> None:
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    wanted = {
        str(path.relative_to(ROOT))
        for path in paths
        if path.suffix not in GENERATED and not any(part.startswith((".", "__pycache__")) for part in path.parts[-3:])
    }
    assert len(wanted) > 1000 and wanted - names == set()
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


def test_the_wheel_has_the_compiled_modules_and_the_pages_and_no_tests(built: Path) -> None:
    with zipfile.ZipFile(only(built, "*.whl")) as wheel:
        names = wheel.namelist()
    for source in ROOT.glob("storage/native/*.pyx"):
        module = f"offsetfs/{source.relative_to(ROOT).with_suffix('')}."
        assert any(name.startswith(module) and name.endswith(".so") for name in names), source
    wanted = {"py.typed", "cli/installed/semantics.md", "web/static/index.html"}
    assert {*(f"offsetfs/{name}" for name in wanted), "pyspark_offsetfs/__init__.py"} <= set(names)
    stubs = ("offsetfs", "offsetfs/storage", "offsetfs/storage/views", "offsetfs/kafka/protocol/messages")
    assert {f"{package}/__init__.pyi" for package in stubs} <= set(names)
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"offsetfs", "pyspark_offsetfs"}


# --- what is installed


@dataclass(frozen=True)
class Installed:
    """A virtual environment that has the wheel, and an empty directory to work in."""

    bin: Path
    work: Path

    def __call__(self, command: str, *arguments: str | Path, text: str | None = None) -> str:
        """Run a program of the environment; return what it prints."""
        return run(self.bin / command, *arguments, cwd=self.work, text=text).stdout

    def python(self, program: str) -> str:
        return self("python", "-I", "-c", program)


def environment_with(what: str, place: Path, *options: str) -> Path:
    """Return the folder of commands of a new virtual environment in `place` with `what` in it, without pip."""
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
    run(sys.executable, "-m", "pip", "--python", place, "install", "-q", *options, what, cwd=place.parent)
    return place / "bin"


@pytest.fixture(scope="module")
def environment_of_the_wheel(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_with(f"{only(built, '*.whl')}[mount]", tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture(scope="module")
def environment_of_the_base(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel without extras; pip may compile nothing."""
    return environment_with(
        str(only(built, "*.whl")), tmp_path_factory.mktemp("base") / "venv", "--only-binary", ":all:"
    )


@pytest.fixture
def base(environment_of_the_base: Path, tmp_path: Path) -> Installed:
    return Installed(environment_of_the_base, tmp_path)


@pytest.fixture
def installed(environment_of_the_wheel: Path, tmp_path: Path) -> Installed:
    return Installed(environment_of_the_wheel, tmp_path)


@pytest.fixture
def mounted(installed: Installed) -> Iterator[Path]:
    """The mount point of a new, empty topic `orders` in `log`; unmounted afterwards."""
    (installed.work / "log").mkdir()
    mount_point = installed.work / "mnt"
    mount_point.mkdir()
    installed("offsetfs", "create", "log", "orders")
    installed("offsetfs", "mount", "log", "mnt")
    yield mount_point
    if mount_point.is_mount():
        installed("offsetfs", "umount", "mnt")


def test_the_version_and_the_place_of_the_code_are_those_of_the_wheel(installed: Installed) -> None:
    where = Path(installed.python("import offsetfs; print(offsetfs.__file__)").strip())
    assert where.is_relative_to(installed.bin.parent)
    version = installed.python("import importlib.metadata as m; print(m.version('offsetfs'))").strip()
    assert version in installed("offsetfs", "--version")
    installed.python("import offsetfs.storage.native.codec, offsetfs.storage.native.json_lines")


def test_a_log_is_mounted_read_appended_to_and_unmounted(installed: Installed, mounted: Path) -> None:
    with open(mounted / "orders-0" / "append", "ab") as append:
        append.write(b"first\nsecond\n")
        os.fsync(append.fileno())
    assert (mounted / "orders-0" / "values").read_text() == "first\nsecond\n"
    assert (mounted / "orders-0" / "1").read_text() == "second"
    assert "orders" in installed("offsetfs", "status", "log")
    installed("offsetfs", "umount", "mnt")
    assert not mounted.is_mount()
    assert installed("offsetfs", "cat", "log", "orders-0/values") == "first\nsecond\n"
    installed("offsetfs", "append", "log", "orders-0", text="third\n")
    assert installed("offsetfs", "cat", "log", "orders-0/2") == "third"


def test_without_pyfuse3_all_works_but_mounting(base: Installed) -> None:
    assert base.python("import importlib.util as u; print(u.find_spec('pyfuse3'))") == "None\n"
    (base.work / "log").mkdir()
    base("offsetfs", "create", "log", "orders")
    base("offsetfs", "append", "log", "orders-0", text="first\nsecond\n")
    base("offsetfs", "append", "log", "orders-0/append.raw", text="third")
    assert base("offsetfs", "cat", "log", "orders-0/values") == "first\nsecond\nthird\n"
    assert {"0", "1", "2", "values"} <= set(base("offsetfs", "ls", "log", "orders-0").split())
    records = base("offsetfs", "cat", "log", "orders-0/records.ndjson").splitlines()
    assert [json.loads(line)["value"] for line in records] == ["first", "second", "third"]
    base("offsetfs", "verify", "log")
    base("offsetfs", "status", "log")


def test_mounting_without_pyfuse3_says_what_installs_it(base: Installed) -> None:
    for name in ("log", "mnt"):
        (base.work / name).mkdir()
    done = subprocess.run(
        [base.bin / "offsetfs", "mount", "-o", "create", "log", "mnt"],
        cwd=base.work,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "offsetfs mount: pyfuse3 is not installed, which only mounting needs: apt-get install "
    )
    assert f"; then pip --python {base.bin}/python install 'pyfuse3>=3.4'; or work " in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_base_is_small(base: Installed) -> None:
    """At most 56 MB, without pip: zstandard has 24 of them, rich and pygments 12, the code of this project 9."""
    files = (Path(folder, name) for folder, _, names in os.walk(base.bin.parent / "lib") for name in names)
    size = sum(path.stat().st_size for path in files if path.suffix != ".pyc")
    assert size <= 56_000_000


def test_a_program_opens_appends_and_reads(installed: Installed) -> None:
    (installed.work / "log").mkdir()
    program = """
import offsetfs
with offsetfs.open("log", "a") as data:
    (orders,) = data.create("orders")
    orders.append(b"value", key=b"key")
with offsetfs.open("log") as data:
    print([(record.offset, record.key, record.value) for record in data.partition("orders-0").read()])
"""
    assert installed.python(program) == "[(0, b'key', b'value')]\n"


def test_without_pyspark_the_source_names_the_extra_that_brings_it(installed: Installed) -> None:
    for module in ("pyspark_offsetfs", "offsetfs.pipeline.source"):
        program = f"""
try:
    import {module}
except ImportError as error:
    print(error)
"""
        printed = installed.python(program)
        assert printed.startswith("the Spark data source needs PySpark 4.2 or later: ")
        assert f"pip --python {installed.bin}/python install 'pyspark>=4.2' " in printed
    installed.python("import offsetfs.pipeline")


def test_with_pyspark_the_source_is_found_by_its_name(installed: Installed) -> None:
    """PySpark is large, so the environment borrows that of this one, behind its own packages."""
    borrowed = next(path for path in sys.path if (Path(path) / "pyspark").is_dir())
    program = f"""
import sys
sys.path.append({borrowed!r})
import pyspark_offsetfs, offsetfs
assert offsetfs.__file__.startswith({str(installed.bin.parent)!r})
print(pyspark_offsetfs.DefaultSource.name())
"""
    assert installed.python(program) == "offsetfs\n"


def test_manual_pages_and_completion_are_installed(installed: Installed) -> None:
    installed("offsetfs", "install-helper", "--root", "root", "--prefix", "/usr")
    root = installed.work / "root" / "usr"
    pages = sorted((root / "share" / "man").rglob("*.[178]"))
    assert {"offsetfs.1", "offsetfs-mount.1", "offsetfs-tree.7", "mount.offsetfs.8"} <= {page.name for page in pages}
    for page in pages:
        rendered = run("groff", "-man", "-Tutf8", "-ww", "-P-c", page, cwd=installed.work)
        assert rendered.stderr == "" and "offsetfs" in rendered.stdout, page
    script = root / "share" / "bash-completion" / "completions" / "offsetfs"
    ask = 'source "$1"; COMP_LINE="offsetfs um"; COMP_POINT=11; _offsetfs_completion "$2"; echo "${COMPREPLY[@]}"'
    assert run("bash", "-c", ask, "bash", script, installed.bin / "offsetfs", cwd=installed.work).stdout == "umount\n"
    assert shutil.which("offsetfs", path=str(root / "bin")), "the command is on the PATH"
