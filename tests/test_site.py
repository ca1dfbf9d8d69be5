"""The web site of the documentation: `scripts/site` builds it from docs/ without a warning."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.unit, pytest.mark.long]

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "scripts" / "pages" / "build_site.py"


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    site = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, str(BUILD), str(site)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stderr
    return site / "html"


def test_the_site_has_a_page_for_each_page_of_the_documentation(html: Path) -> None:
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    names = {page.with_name("index.html" if page.name == "README.md" else f"{page.stem}.html") for page in pages}
    assert len(names) > 60
    assert sorted(str(name) for name in names if not (html / name).exists()) == []


def test_the_first_page_of_the_site_is_the_readme(html: Path) -> None:
    page = (html / "index.html").read_text()
    assert "Mounts a Kafka log directory as a file system" in page
    assert 'href="use/first-steps.html"' in page


@pytest.mark.parametrize("package", ["offsetfs", "offsetfs.storage"])
def test_the_reference_of_the_site_has_each_documented_public_name(html: Path, package: str) -> None:
    stub = (ROOT / "src" / package.replace(".", "/") / "__init__.pyi").read_text()
    names = re.findall(r"^from (\S+) import ([A-Za-z]\w*) as", stub, re.MULTILINE)
    page = (html / "reference" / f"{package}.html").read_text()
    missing = [f"{module}.{name}" for module, name in names if f'id="{module}.{name}"' not in page]
    assert missing == (["offsetfs.storage.errors"] if package == "offsetfs" else [])  # a page of its own


def test_the_site_finds_words_of_pages_and_names_of_the_library(html: Path) -> None:
    index = json.loads((html / "search" / "search_index.json").read_text())
    places = {entry["location"] for entry in index["docs"]}
    assert "use/semantics.html#consumer-groups" in places
    assert "reference/offsetfs.html#offsetfs.open_directory.open" in places


def test_the_site_loads_nothing_from_other_hosts(html: Path) -> None:
    loading = re.compile(r'<(?:script|img|iframe)[^>]* src="https?:|<link[^>]* href="https?:[^>]*stylesheet')
    assert [str(path) for path in html.rglob("*.html") if loading.search(path.read_text())] == []
