"""Builds the web site of the documentation: `scripts/site`.

The pages of docs/ keep their paths. The README of the project becomes the first page, that of docs/ `contents.md`;
the other pages that lie outside of docs/ become pages too. The pages of the reference have a directive of mkdocstrings
for each public name. A warning of mkdocs, such as one of a broken link, fails the build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
}
"""The pages outside of docs/, and their names on the site."""
REFERENCE = {"offsetfs": "import offsetfs", "offsetfs.storage": "The engine", "offsetfs.storage.errors": "Errors"}
"""The packages of the reference, and the titles of their pages."""


def main() -> int:
    """Build the site in the folder that the command line names; return the exit code of mkdocs."""
    if len(sys.argv) != 2:
        print("build_site: name one folder for the site, such as .cache/site", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    write_pages(folder / "pages")
    shutil.copy(HERE / "mkdocs.yml", folder)
    shutil.copy(HERE / "site.css", folder / "pages")
    sources = folder / "src"
    sources.unlink(missing_ok=True)
    sources.symlink_to(ROOT / "src")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(folder / "mkdocs.yml")], check=False
    )
    if not built.returncode:
        print(f"the site: {folder / 'html' / 'index.html'}")
    return built.returncode


def write_pages(pages: Path) -> None:
    """Write the sources of all pages below the folder `pages`, which is replaced."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    (pages / "README.md").rename(pages / "contents.md")
    for name, on_site in OUTSIDE.items():
        (pages / on_site).write_text(inside_docs((ROOT / name).read_text()))
    for page in list(pages.rglob("*.md")):
        up = "../" * len(page.parent.relative_to(pages).parts)
        text = page.read_text()
        for name, on_site in OUTSIDE.items():
            text = text.replace(f"](../{up}{name}", f"]({up}{on_site}")
        page.write_text(for_mkdocs(text, page.parent))
    decisions = pages / "internals" / "decisions"
    with (decisions / "README.md").open("a") as introduction:
        introduction.write("\n## Pages\n\n" + listed(decisions))
    (pages / "reference").mkdir()
    for package, title in REFERENCE.items():
        directives = [f"::: {name}\n" for name in public_names(package)]
        (pages / "reference" / f"{package}.md").write_text("\n".join([f"# {title}\n", *directives]))


def public_names(package: str) -> list[str]:
    """Return the names that a package publishes in its stub, as the modules that define them call them.

    A module without a stub is the only name of its page.
    """
    stub = ROOT / "src" / package.replace(".", "/") / "__init__.pyi"
    if not stub.exists():
        return [package]
    imports = re.findall(r"^from (\S+) import (\w+) as \w+$", stub.read_text(), re.MULTILINE)
    return [f"{module}.{name}" for module, name in imports if f"{module}.{name}" not in REFERENCE and name[0] != "_"]


def inside_docs(text: str) -> str:
    """Return a page of the project's root with its links as from docs/."""
    text = text.replace("](docs/README.md", "](contents.md").replace("](docs/", "](")
    for name, on_site in OUTSIDE.items():
        text = text.replace(f"]({name}", f"]({on_site}")
    return text


def for_mkdocs(text: str, folder: Path) -> str:
    """Return a page of `folder` with the links and lists that mkdocs understands.

    A link to a folder leads to the README of the folder, which lists its files if docs/ has none.
    """
    text = re.sub(r"^  \* ", "    * ", text, flags=re.MULTILINE)  # Python-Markdown: four spaces make a nested list
    for link in re.findall(r"\]\(([\w/.-]+/)\)", text):
        if not (folder / link / "README.md").exists():
            (folder / link / "README.md").write_text(f"# Files of {(folder / link).name}\n\n{listed(folder / link)}")
    return re.sub(r"\]\(([\w/.-]+/)\)", r"](\1README.md)", text)


def listed(folder: Path) -> str:
    """Return a list of the files of `folder` with links; a page is named by its title."""
    lines = []
    for path in sorted(folder.iterdir()):
        title = path.read_text().partition("\n")[0].removeprefix("# ") if path.suffix == ".md" else path.name
        lines.append(f"* [{title}]({path.name})\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
