"""The list of paths that codespell skips because they still use banned words only shrinks."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["codespell"]
BANNED = ROOT / "scripts" / "banned-words.txt"
FOREIGN = {
    "./build/*",
    "./pyproject.toml",
    "./scripts/banned-words.txt",
    "./tests/test_words.py",
    "./tests/golden/*",
    "./tests/kafka/*",
    "*.c",
    "*.egg-info/*",
    "*.json",
    "*.svg",
}


def findings(folder: Path, *arguments: str) -> list[str]:
    """Return the lines that codespell prints when it runs in `folder`, where no configuration is found."""
    command = [sys.executable, "-m", "codespell_lib", "--builtin", CONFIG["builtin"]]
    command += ["--dictionary", "-", "--dictionary", str(BANNED), "--ignore-regex", CONFIG["ignore-regex"]]
    command += ["--ignore-words-list", CONFIG["ignore-words-list"], *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.mark.unit
def test_every_skipped_path_still_has_a_banned_word(tmp_path: Path) -> None:
    skipped = [entry.removesuffix("/*") for entry in CONFIG["skip"] if entry not in FOREIGN]
    found = findings(tmp_path, *(str(ROOT / path) for path in skipped))
    files = [line.split(":", 1)[0] for line in found]
    clean = [path for path in skipped if not any(Path(file).is_relative_to(ROOT / path) for file in files)]
    assert clean == [], "delete these lines from [tool.codespell] in pyproject.toml"


@pytest.mark.long
@pytest.mark.unit
@pytest.mark.parametrize("word", ["whoever", "Somebody", "nobody", "told", "behaviour", "recieve"])
def test_a_banned_or_misspelled_word_is_found(tmp_path: Path, word: str) -> None:
    (tmp_path / "page.md").write_text(f"A sentence with {word} in it, and `{word}` as an identifier.\n")
    assert len(findings(tmp_path, "page.md")) == 1
