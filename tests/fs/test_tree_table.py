"""Each row of the table of the tree is complete: node, look-up, listing, inode, path, completion, documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyfuse3
import pytest
import trio

from offsetfs import NewRecord
from offsetfs import open as open_log
from offsetfs.cli.completion import completers
from offsetfs.fs.files.texts import README
from offsetfs.fs.mounting.directories import PartitionTree
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.naming.inodes import pack, unpack
from offsetfs.fs.naming.tree_table import IN_CONTROL, IN_DECODED, IN_MOUNT, IN_PARTITION, IN_TOPIC, Kind, fixed_names
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
CTX: Any = SimpleNamespace(pid=0)
DIRECTORIES = {
    IN_MOUNT: [],
    IN_CONTROL: [".offsetfs"],
    IN_PARTITION: ["orders-0"],
    IN_DECODED: ["orders-0", "decoded"],
    IN_TOPIC: ["topics", "orders"],
}
"""Path of each directory with fixed names."""

FIXED = [
    (directory, name, kind)
    for directory in DIRECTORIES
    for name, kind in fixed_names(directory)
    if kind != Kind.SCHEMAS  # this log has none
]


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = str(tmp_path / "log")
    Path(path).mkdir()
    with open_log(path, "a") as data:
        data.create("orders")[0].extend([NewRecord(b"value", key=b"key", timestamp=1_795_266_300_000)])
    return path


class Mounted:
    """Operations on a log directory, without a kernel."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations

    async def look(self, *names: str) -> int:
        inode = int(pyfuse3.ROOT_INODE)
        for name in names:
            inode = (await self.operations.lookup(inode, name.encode(), CTX)).st_ino
        return inode

    async def listed(self, *names: str) -> list[str]:
        handle = await self.operations.opendir(await self.look(*names), CTX)
        found: list[str] = []

        def take(name: bytes, entry: object, cookie: int) -> bool:
            found.append(name.decode())
            return True

        await self.operations.entries(handle, 0, take)
        await self.operations.releasedir(handle)
        return found

    async def tree(self) -> PartitionTree:
        await self.look("orders-0", "start")
        return await self.operations._nodes.tree(1)


@pytest.fixture
async def mounted(nursery: trio.Nursery, log: str) -> Any:
    directory = LogDirectory.open(log)
    # With create, groups can be looked up although no group exists.
    operations = Operations(directory, MountOptions(create=True, listed_max=0), nursery)
    yield Mounted(operations)
    await operations.accumulators.close()
    directory.close()


async def test_each_kind_has_one_node(mounted: Mounted) -> None:
    table = mounted.operations._nodes
    of_mount, of_partition = table._nodes, (await mounted.tree()).nodes
    for kind in Kind:
        is_in_partition = (
            kind.spec.paths[0].startswith(IN_PARTITION)
            or kind in (Kind.TOPIC_LINK, Kind.TOPIC_DECODED_LINK)  # links: of their target
        )
        nodes, other = (of_partition, of_mount) if is_in_partition else (of_mount, of_partition)
        having = (nodes.directories, nodes.files, nodes.links)
        expected = (kind.spec.is_directory, not kind.spec.is_directory and not kind.spec.is_link, kind.spec.is_link)
        assert tuple(kind in each for each in having) == expected, kind
        assert all(kind not in each for each in (other.directories, other.files, other.links)), kind
        assert (kind in nodes.lookup_numbers) == kind.spec.has_lookup_number, kind
    known = {*of_mount.directories, *of_mount.files, *of_mount.links}
    assert known | {*of_partition.directories, *of_partition.files, *of_partition.links} == set(Kind)


async def test_files_with_xattrs_return_them_and_writable_files_check_writes(mounted: Mounted) -> None:
    tree, of_mount = await mounted.tree(), mounted.operations._nodes._nodes
    assert set(tree.with_xattrs) == {kind for kind in Kind if kind.spec.has_xattrs}
    files = {**of_mount.files, **tree.nodes.files}
    assert {kind for kind in files if hasattr(files[kind], "check_writable")} == {
        kind for kind in Kind if kind.spec.is_writable
    }


@pytest.mark.long
@pytest.mark.parametrize(("directory", "name", "kind"), FIXED, ids=[f"{where}{name}" for where, name, _ in FIXED])
async def test_a_name_of_the_table_is_found_and_has_an_inode_of_its_kind(
    mounted: Mounted, directory: str, name: str, kind: Kind
) -> None:
    inode = await mounted.look(*DIRECTORIES[directory], name)
    assert unpack(inode).kind == kind
    assert await mounted.operations.getattr(inode, CTX)
    path = mounted.operations._nodes.partitions.path_of(inode)
    assert "/".join([*DIRECTORIES[directory], name]).startswith(path) or kind.spec.is_link


@pytest.mark.parametrize("directory", DIRECTORIES)
async def test_a_listing_has_the_listed_names_in_the_order_of_the_table(mounted: Mounted, directory: str) -> None:
    names = [
        name for name, kind in fixed_names(directory) if kind.spec.is_listed and kind not in (Kind.GROUPS, Kind.SCHEMAS)
    ]
    partitions = ["orders-0"] if directory == IN_MOUNT else []
    assert await mounted.listed(*DIRECTORIES[directory]) == names + partitions


def test_each_name_is_offered_at_tab(log: str) -> None:
    ctx: Any = SimpleNamespace(params={"log_directory": log})
    for directory, name, kind in FIXED:
        if directory != IN_CONTROL:
            path = "/".join([*DIRECTORIES[directory], name])
            offered = [item.value for item in completers._tree_paths(ctx, path)]
            assert path + "/" * kind.spec.is_directory in offered


def test_completion_loads_neither_trio_nor_pyfuse3() -> None:
    program = "import sys, offsetfs.cli.completion.completers; print({'trio', 'pyfuse3'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


ONE_MORE = """
import errno, importlib, importlib.util, os, sys
from types import SimpleNamespace

# The table with one more row. No module that derives from it is loaded yet.
NAME = "offsetfs.fs.naming.tree_table"
assert NAME not in sys.modules
found = importlib.util.find_spec(NAME)
table = sys.modules[NAME] = importlib.util.module_from_spec(found)
row = '    EXAMPLE = 999, _row("<partition>/example")\\n'
rows = found.loader.get_source(NAME).replace("    APPEND = 9,", row + "    APPEND = 9,")
exec(compile(rows, NAME, "exec"), table.__dict__)
from offsetfs.fs.naming.tree_table import Kind

# Its node.
from offsetfs.fs.files.texts import Text
from offsetfs.fs.mounting import directories
texts = directories.partition_texts

def with_example(mount, partition):
    async def example():
        return b"1\\n"
    return {**texts(mount, partition), Kind.EXAMPLE: Text(mount, partition.inode(Kind.EXAMPLE), example)}

directories.partition_texts = with_example

from offsetfs.cli.completion import completers
from offsetfs.fs.mounting.in_process_tree import run
from offsetfs.fs.naming.inodes import unpack
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory

async def work(tree):
    names = []
    async def take(entries):
        names.extend(entry.name.decode() for entry in entries)
    await tree.entries("orders-0", take)
    print(names[names.index("example")], len(names) - len(set(names)))
    entry = await tree.find("orders-0/example")
    print(unpack(entry.inode), tree._operations._nodes.partitions.path_of(entry.inode), entry.size)
    async with tree.open("orders-0/example") as file:
        print(await file.read(0, 100))
    try:
        async with tree.open("orders-0/example", os.O_WRONLY):
            pass
    except OSError as error:
        print(errno.errorcode[error.errno])

run(LogDirectory.open(sys.argv[1]), MountOptions(), work)
ctx = SimpleNamespace(params={"log_directory": sys.argv[1]})
print([item.value for item in completers._tree_paths(ctx, "orders-0/ex")])
"""


@pytest.mark.long
def test_a_file_kind_is_one_row_and_its_node(log: str) -> None:
    result = subprocess.run([sys.executable, "-c", ONE_MORE, log], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "example 0",
        "Inode(kind=999, partition=1, number=999) orders-0/example 2",
        "b'1\\n'",
        "EPERM",
        "['orders-0/example']",
    ]


def test_kinds_keep_their_numbers() -> None:
    """An inode number never changes its kind from one version to the next."""
    once = (
        "DIRECTORY README CONTROL ERRORS VERSION START NEXT INFO APPEND SEGMENTS BY_TIME GROUPS APPEND_NDJSON "
        "APPEND_RAW RANGES LAST BY_KEY TOPICS STATS METRICS CONFIG FLUSH LOG_LEVEL DECODED DECODED_RANGES DECODED_LAST "
        "DECODED_BY_TIME SCHEMAS SCHEMA_IDS DECODED_APPEND DECODED_BY_KEY"
    )
    many = (
        "RECORD VALUES SEGMENT LINK TIME_LINK MINUTE_LINK TIME_DIRECTORY GROUP GROUP_LAG GROUP_COMMIT RECORDS "
        "RECORD_JSON RECORD_KEY RECORD_HEADERS RANGE FOLLOW KEYED TOPIC TOPIC_APPEND TOPIC_KEYS GROUP_STATE "
        "TOPIC_FOLLOW TOPIC_SNAPSHOT TOPIC_RANGE TOPIC_RANGES TOPIC_TIMES TOPIC_LINK DECODED_VALUES DECODED_RECORDS "
        "DECODED_RANGE DECODED_FOLLOW"
    )
    more = (
        "DECODED_RECORD DECODED_LINE DECODED_TIME_DIRECTORY TOPIC_DECODED TOPIC_DECODED_RANGES TOPIC_DECODED_SNAPSHOT "
        "TOPIC_DECODED_RANGE TOPIC_DECODED_FOLLOW SCHEMA_SUBJECT SCHEMA_FILE SCHEMA_LINK "
        "TOPIC_DECODED_APPEND TOPIC_DECODED_LINK TOPIC_DECODED_TIMES TOPIC_DECODED_KEYS"
    )
    assert [Kind[name] for name in once.split()] == list(range(1, 32))
    assert [Kind[name] for name in many.split()] == [kind << 59 for kind in range(1, 32)]
    assert [Kind[name] for name in more.split()] == [kind << 59 | 1 << 58 for kind in range(15)]
    assert {kind.name for kind in Kind} == {*once.split(), *many.split(), *more.split()}, (
        "add a new kind to the end of a list here"
    )
    assert pack(Kind.RECORD, 3, 42) == 1 << 59 | 3 << 40 | 42


# --- documentation ---------------------------------------------------------------------------------------------------

CONFORMANCE = (ROOT / "docs/evidence/conformance.md").read_text()
COLUMNS = {
    row[0]: re.findall(r"`([^`]+)`", row[1]) for row in re.findall(r"^\| \*\*(.+)\*\* \| (.+) \|$", CONFORMANCE, re.M)
}
CALLS = {
    row[0]: row[1:]
    for row in (line.split("\t") for line in (ROOT / "docs/evidence/conformance.tsv").read_text().splitlines())
}


def pattern(path: str) -> re.Pattern[str]:
    """Return what matches the paths that a path of the table stands for."""
    text = re.escape(path.removesuffix("/"))
    text = text.replace("<partition>", r"[a-z]+-\d+").replace("<offset>", r"\d+")
    return re.compile(re.sub(r"<[^>]+>", "[^ ]+", text) or "/")


def columns_of(kind: Kind, path: str) -> set[str]:
    wanted = pattern(path)
    return {column for column, paths in COLUMNS.items() if any(wanted.fullmatch(each) for each in paths)}


def cells(call: str, columns: set[str]) -> set[str]:
    header = CALLS["call"]
    return {cell for name, cell in zip(header, CALLS[call], strict=True) if name in columns}


NOT_ON_THE_PAGE = {
    Kind.MINUTE_LINK: "as TIME_LINK",
    Kind.RECORD_HEADERS: "as RECORD_KEY; the records of the golden partition have no headers",
    **dict.fromkeys((Kind.SCHEMAS, Kind.SCHEMA_IDS, Kind.SCHEMA_SUBJECT), "as TOPICS; the golden log has no schemas"),
    Kind.SCHEMA_FILE: "as README",
    Kind.SCHEMA_LINK: "as LINK",
    Kind.GROUP_STATE: "as GROUP_LAG; the golden log has no group with members",
}


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in NOT_ON_THE_PAGE], ids=lambda kind: kind.name)
def test_each_path_has_a_column_of_the_conformance_page(kind: Kind) -> None:
    for path in kind.spec.paths:
        columns = columns_of(kind, path)
        assert columns, f"add {path} to a column of docs/evidence/conformance.md"
        if not kind.spec.is_directory and "<T>" not in path and "<group>/<" not in path:
            is_writable = cells("open O_WRONLY", columns) == {"ok / EROFS"}
            assert is_writable == kind.spec.is_writable, path


def test_the_tree_of_the_semantics_page_has_each_name() -> None:
    tree = (ROOT / "docs/use/semantics.md").read_text().partition("    MNT/")[2].partition("“By name”")[0]
    assert missing_names(tree) == [], "add the names to the tree in docs/use/semantics.md"


def test_the_readme_of_a_mount_has_each_name_that_is_used_in_commands() -> None:
    unused = {"README", ".offsetfs/version", "<partition>/segments/"}
    assert set(missing_names(README.decode())) == unused, "add the names to README in fs/files/texts.py"


def missing_names(text: str) -> list[str]:
    """Return the paths of the table whose last component does not occur: its literal part, such as `.json`."""
    text, missing = text.replace("[", "").replace("]", ""), []
    for kind in Kind:
        for path in kind.spec.paths:
            last = path.removesuffix("/").rpartition("/")[2]
            if not all(part in text for part in re.split(r"<[^>]+>", last)):
                missing.append(path)
    return missing
