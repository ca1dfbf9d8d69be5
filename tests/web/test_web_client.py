"""The files of the page: colors that can be read, a size that loads at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

STATIC = Path(__file__).parents[2] / "web" / "static"


def colors() -> list[dict[str, str]]:
    """The colors of the light page, and those of the dark one."""
    blocks = re.findall(r":root \{([^}]*)\}", (STATIC / "style.css").read_text())
    return [dict(re.findall(r"--(\w+): (#\w+)", block)) for block in blocks]


def luminance(color: str) -> float:
    digits = color.removeprefix("#")
    digits = "".join(2 * each for each in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_texts_have_the_contrast_of_wcag_aa_by_day_and_by_night() -> None:
    assert len(colors()) == 2
    for of_page in colors():
        for back in ("back", "soft"):
            for text in ("fore", "muted", "link", "bad", "warn", "good"):
                assert contrast(of_page[text], of_page[back]) >= 4.5, (text, back, of_page)
            assert contrast(of_page["bar"], of_page[back]) >= 3


def test_the_page_is_small_and_its_modules_are_used() -> None:
    texts = {path.name: path.read_text() for path in STATIC.iterdir()}
    assert sum(len(text.encode()) for text in texts.values()) < 100_000
    named = {name for text in texts.values() for name in re.findall(r"/static/([\w.]+)", text)}
    assert named == texts.keys() - {"index.html"}
