"""A bar for each contender of a row, as SVG: the median, and a thin line from the smallest figure to the largest."""

from __future__ import annotations

import statistics
from html import escape

from measuring import Result

WIDTH = 820
_BAR_LEFT, _BAR_WIDTH, _VALUE_WIDTH = 300, 400, 120
_TOP, _STEP, _BAR_HEIGHT = 34, 30, 18

_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.ours { fill: #2f6f4f } .peer { fill: #a9b3bd } .spread { stroke: #1f2328; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .ours { fill: #57ab7f } .peer { fill: #59636e } .spread { stroke: #e6edf3 }
}"""


def svg(result: Result) -> str:
    """Return the chart of a row; shorter bars are better."""
    bars = [(result.ours, result.figures, "ours"), *((peer.name, peer.figures, "peer") for peer in result.peers)]
    longest = max(max(figures) for _, figures, _ in bars) or 1.0
    height = _TOP + _STEP * len(bars) + 6
    title = f"{result.row}: {result.unit}, less is better"
    drawn = "\n".join(_bar(place, *bar, longest, result.unit) for place, bar in enumerate(bars))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' role="img" aria-label="{escape(title)}">\n<style>\n{_STYLE}\n</style>\n'
        f'<text class="title" x="0" y="18">{escape(title)}</text>\n{drawn}\n</svg>\n'
    )


def _bar(place: int, name: str, figures: list[float], kind: str, longest: float, unit: str) -> str:
    top = _TOP + place * _STEP
    middle, baseline = top + _BAR_HEIGHT / 2, top + 14
    median, low, high = (
        figure / longest * _BAR_WIDTH for figure in (statistics.median(figures), min(figures), max(figures))
    )
    label = f"{amount(statistics.median(figures))} {unit}"
    return (
        f'<text x="0" y="{baseline}">{escape(name.replace("`", ""))}</text>\n'
        f'<rect class="{kind}" x="{_BAR_LEFT}" y="{top}" width="{median:.1f}" height="{_BAR_HEIGHT}" rx="2"/>\n'
        f'<line class="spread" x1="{_BAR_LEFT + low:.1f}" x2="{_BAR_LEFT + high:.1f}" y1="{middle}" y2="{middle}"/>\n'
        f'<text x="{WIDTH}" y="{baseline}" text-anchor="end">{escape(label)}</text>'
    )


def amount(figure: float) -> str:
    """Return a figure with three digits that count."""
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"
