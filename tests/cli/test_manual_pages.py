"""The manual pages say what --help says, and render without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from offsetfs.cli import VERBS, mount_helper, run
from offsetfs.cli.commands import spark
from offsetfs.cli.installed.manual_pages import DOCUMENTS, pages
from offsetfs.cli.installed.roff import Page, escaped
from offsetfs.fs.options import MountOptions

pytestmark = pytest.mark.unit

PAGES = {page.name: page for page in pages()}


def rendered(page: Page) -> str:
    """Return a page as a reader sees it, without bold type."""
    command = ["groff", "-man", "-Tutf8", "-ww", "-P-c", "-rLL=300n"]
    result = subprocess.run(command, input=page.text().encode(), capture_output=True, check=True)
    assert result.stderr == b"", result.stderr.decode()
    text = re.sub(".\b", "", result.stdout.decode())
    return text.replace("−", "-").replace("‐", "-").replace("’", "'").replace("\u00a0", " ")


needs_groff = pytest.mark.skipif(shutil.which("groff") is None, reason="groff renders the pages, and is not there")


def help_of(capsys: pytest.CaptureFixture[str], name: str) -> str:
    capsys.readouterr()
    if name == mount_helper.NAME:
        assert run(["--help"], mount_helper.command, mount_helper.NAME) == 0
    else:
        verb = name.removeprefix("offsetfs").removeprefix("-")
        words = ["spark", verb.removeprefix("spark-")] if verb.startswith("spark-") else [verb] if verb else []
        assert run([*words, "--help"]) == 0
    return capsys.readouterr().out


def test_there_is_a_page_for_all_and_for_each_verb() -> None:
    jobs = {f"offsetfs-spark-{name}" for name in spark.command.commands}
    assert jobs and set(PAGES) == {"offsetfs", mount_helper.NAME, *(f"offsetfs-{v}" for v in VERBS), *jobs, *DOCUMENTS}
    sections = {name: page.section for name, page in PAGES.items() if page.section != 1}
    assert sections == {mount_helper.NAME: 8, **dict.fromkeys(DOCUMENTS, 7)}


@needs_groff
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_page_of_a_document_renders_without_a_warning_and_has_all_its_words(name: str) -> None:
    page = set(re.findall(r"[a-z]{4,}", rendered(PAGES[name]).lower()))
    text = (Path(__file__).parents[2] / "docs" / "use" / DOCUMENTS[name][0]).read_text()
    text = re.sub(r"\]\([^)]*\)", "]", text.partition("\n")[2])
    text = re.sub(r"^\|.*\n(?=\|[-| ]+\n)", "", text, flags=re.MULTILINE)  # the heads of tables
    assert set(re.findall(r"[a-z]{4,}", text.lower())) <= page


def test_no_help_points_into_a_checkout() -> None:
    for name in [page for page in PAGES if page not in DOCUMENTS]:
        assert "docs/" not in PAGES[name].text(), name


@pytest.mark.long
@needs_groff
@pytest.mark.parametrize("name", [name for name in PAGES if name not in DOCUMENTS])
def test_a_page_renders_without_a_warning_and_states_what_help_states(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = " ".join(rendered(PAGES[name]).split())
    said = help_of(capsys, name)
    options = re.findall(r"^  (-.*?)(?:  |$)", said, re.MULTILINE)
    assert options and all(" ".join(option.split()) in page for option in options), options
    for paragraph in re.split(r"\n\s*\n", said.partition("\n\n")[2].partition("\nOptions:")[0]):
        words = " ".join(paragraph.split()).removeprefix("Exit codes: ")
        rows = [" ".join(line.split()) for line in paragraph.splitlines()]
        assert words in page or all(row in page for row in rows), paragraph


@needs_groff
def test_the_first_page_names_every_verb() -> None:
    page = rendered(PAGES["offsetfs"])
    for verb, line in VERBS.items():
        assert f"offsetfs {verb}\n" in page and line in page and f"offsetfs-{verb}(1)" in page


@needs_groff
def test_the_page_of_mount_has_every_option_of_a_mount() -> None:
    page = " ".join(rendered(PAGES[mount_helper.NAME]).split())
    own = [name for name in MountOptions().texts() if "." not in name]
    assert len(own) > 8 and all(f"{name}" in page for name in [*own, "ro", "create", "allow_other", "delete-records"])
    assert "/var/lib/kafka/data /mnt/kafka offsetfs ro,_netdev,nofail,x-systemd.automount 0 0" in page


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        (".SH forged", "\\&.SH forged"),
        ("'br", "\\(aqbr"),
        ("a\\fBb", "a\\efBb"),
        ("-o a-b", "\\-o a\\-b"),
        ("…ä\x1b", "\\[u2026]\\[u00E4]\\[u001B]"),
        ("", ""),
    ],
)
def test_no_text_is_a_request(text: str, roff: str) -> None:
    assert escaped(text) == roff


@needs_groff
def test_texts_come_out_as_they_went_in() -> None:
    page = Page("x", 1, "r", summary="s")
    page.heading("EXAMPLES")
    lines = [".TH x", "'quoted' \"twice\" `back` ~/logs ^ --long-option \\040 %n …", ""]
    page.verbatim(lines)
    page.term("-o OPT", "")
    assert all(line in rendered(page) for line in lines)
