"""The commands of docs/use/walkthrough.md do what the page says, at a scale that fits every run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from offsetfs.storage.compaction.offset_map import OffsetMap

pytestmark = pytest.mark.mount  # no mount, but as long as one: half a minute of commands

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outputs() -> dict[str, str]:
    """What each command of the page prints for two hundred thousand lines, in four segments."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, str(ROOT / "scripts" / "walkthrough"), "--count", "200000", "--segment-bytes", "2500000"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    return blocks(done.stdout)


def blocks(page: str) -> dict[str, str]:
    found: dict[str, str] = {}
    command = ""
    for line in page.splitlines():
        if line.startswith("    $ "):
            command = line[6:]
            found.setdefault(command, "")
        elif line.startswith("    ") and command:
            found[command] += line[4:] + "\n"
        else:
            command = ""
    return found


def output_of(outputs: dict[str, str], start: str) -> str:
    return next(text for command, text in outputs.items() if command.startswith(start))


def test_the_walk_by_hand_ends_where_the_program_does(outputs: dict[str, str]) -> None:
    same = [text for command, text in outputs.items() if command.startswith("test ")]
    assert same == ["the same line\n"] * 2


def test_the_dumps_state_what_the_bytes_are(outputs: dict[str, str]) -> None:
    assert output_of(outputs, "xxd -l 61").startswith("00000000: 0000 0000 0000 0000 ")
    raw = bytes.fromhex("".join(output_of(outputs, "xxd -c 8").splitlines()[0].split()[1:5]))
    entry = re.search(r"offset: (\d+) position: (\d+)", output_of(outputs, "offsetfs dump --files $FIRST.index"))
    assert entry is not None
    assert (int.from_bytes(raw[:4], "big"), int.from_bytes(raw[4:], "big")) == (int(entry[1]), int(entry[2]))
    raw = bytes.fromhex("".join(output_of(outputs, "xxd -c 12").splitlines()[0].split()[1:7]))
    entry = re.search(r"timestamp: (\d+) offset: (\d+)", output_of(outputs, "offsetfs dump --files $FIRST.timeindex"))
    assert entry is not None
    assert (int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")) == (int(entry[1]), int(entry[2]))


def test_segments_are_no_larger_than_they_may_be(outputs: dict[str, str]) -> None:
    listed = [line.split() for line in output_of(outputs, "ls -l").splitlines()]
    sizes = [int(size) for size, name in (each for each in listed if len(each) == 2) if name.endswith(".log")]
    assert len(sizes) > 2 and max(sizes) <= 2_500_000


def test_the_cleaner_groups_by_the_sizes_before_the_pass(outputs: dict[str, str]) -> None:
    cleaned = output_of(outputs, "offsetfs clean")
    assert "kept 2000 of 12000 records" in cleaned and "kept 2000 of 2010 records" in cleaned
    removed = re.search(r"removed (\d+) segments", cleaned)
    assert removed is not None and int(removed[1]) > 4  # how many there were depends on how lines came in batches
    assert output_of(outputs, "for key in") == "the last\nround 6 of user 1234\n"


def test_a_map_of_128_mib_takes_5033164_keys(outputs: dict[str, str]) -> None:
    assert output_of(outputs, "echo $((128") == "5033164 keys\n"
    assert OffsetMap(128 << 20).count_max == 5033164


def test_the_page_shows_what_its_commands_print(outputs: dict[str, str]) -> None:
    shown = blocks((ROOT / "docs" / "use" / "walkthrough.md").read_text())
    assert list(shown) == list(outputs)
    silent = [command for command, text in shown.items() if not text]
    assert [outputs[command] for command in silent] == [""] * len(silent)
