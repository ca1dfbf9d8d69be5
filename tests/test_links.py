"""Relative links in Markdown pages lead to files that exist, and `docs/…` paths in sources do as well."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
SHELVES = ("use", "internals", "evidence")


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the project that match; without git, those below the folders of the project."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        folders = (
            "archive",
            "cli",
            "common",
            "docs",
            "fs",
            "kafka",
            "pipeline",
            "answers",
            "schemas",
            "scripts",
            "src",
            "storage",
            "tables",
            "web",
            "tests",
        )
        found = [*ROOT.glob("*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
        return [path for path in found if path.is_file() and any(path.match(pattern) for pattern in patterns)]
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


PAGES = [path for path in tracked("*.md") if not path.is_symlink()]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of `page`, as GitHub builds them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_paths_of_pages_that_sources_name_exist() -> None:
    sources = [*tracked("*.py", "*.pyx", "*.pxd", "*.toml"), *tracked("scripts/*")]
    named = {
        (str(source.relative_to(ROOT)), path)
        for source in sources
        for path in re.findall(r"(?<![\w/.])docs/[\w/-]+\.(?:md|svg|json)", source.read_text(errors="replace"))
    }
    assert sorted((source, path) for source, path in named if not (ROOT / path).exists()) == []


def test_each_page_has_a_shelf_and_an_entry_in_the_table_of_contents() -> None:
    contents = (ROOT / "docs" / "README.md").read_text()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md") if path.name != "README.md"]
    assert {page.parts[0] for page in pages if len(page.parts) > 1} <= set(SHELVES)
    missing = [page for page in pages if f"({page})" not in contents and len(page.parts) < 3]
    assert missing == []


def test_the_readme_fits_on_two_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_each_page_has_a_place_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "scripts" / "pages" / "mkdocs.yml").read_text()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    by_itself = re.compile(r"README\.md|internals/decisions/\d")  # the page of contents; pages that their folder lists
    assert [str(page) for page in pages if f": {page}\n" not in navigation and not by_itself.match(str(page))] == []


def test_all_pages_together_have_at_most_64_000_words() -> None:
    pages = [page for page in PAGES if page.parent == ROOT or page.is_relative_to(ROOT / "docs")]
    words = sum(len([word for word in page.read_text().split() if re.search(r"\w", word)]) for page in pages)
    assert words <= 64_000, "shorten other pages by what was added"
