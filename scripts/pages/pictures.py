"""Draw the pictures of `offsetfs web` and of `stats --html` in docs/pictures/ again, from a log directory of the tests.

PATH=$PWD/.venv/bin:$PATH PYTHONPATH=tests python scripts/pages/pictures.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from fixtures.browser.chromium import Page, opened_page
from fixtures.browser.web_logs import write_web_logs
from fixtures.browser.web_process import web_process

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
BY_STATUS = "SELECT value->>'status' AS status, count(*) AS records FROM orders GROUP BY 1 ORDER BY 1"
VIEWS = {
    "web-topics.png": "/",
    "web-topic.png": "/topics/orders",
    "web-partition.png": "/topics/orders/0",
    "web-records.png": "/records?topic=orders&text=lost",
    "web-group.png": "/groups/billing",
    "web-findings.png": "/findings",
    "web-sql.png": f"/sql?statement={quote(BY_STATUS)}",
}
"""The pictures, with the addresses of their views."""
DARK = "web-group.png"
"""The picture that shows the page in dark colors."""
REPORT = "stats-html.png"
SHOWN_AS = "/var/lib/kafka/data"
RENAMED = """for (const each of document.querySelectorAll("#view p, #view td div, #view td")) {
    if (each.textContent === arguments[0]) each.textContent = arguments[1]; }"""
"""Shows the name of the log directory as another: that of a temporary directory differs each time."""


def show(page: Page, path: str) -> None:
    """Open a view, and wait until all of it is there."""
    page.open(path)
    if path == "/":
        page.until(lambda: len(page.found(".spark, .spark-cell .muted")) == len(page.found("tbody tr")) > 0)
    if path.startswith("/records"):
        page.until(lambda: "60 found" in page.text)
        page.one("table.records button").click()
        page.until(lambda: page.found(".details .tree"))


def draw(place: Path) -> None:
    """Write all pictures into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        logs.mkdir()
        write_web_logs(logs)
        report = Path(folder, "report.html")
        command = [sys.executable, "-m", "offsetfs", "stats", str(logs), "orders", "payments", "--html", str(report)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        report.write_text(report.read_text().replace(str(logs), SHOWN_AS))
        with (
            web_process(logs) as (_, address),
            opened_page(address, Path(folder, "profile"), width=1100, height=760) as page,
        ):
            for name, path in VIEWS.items():
                scheme = {"name": "prefers-color-scheme", "value": "dark" if name == DARK else "light"}
                page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
                show(page, path)
                page.script("document.activeElement.blur()")
                page.script(RENAMED, str(logs), SHOWN_AS)
                page.driver.save_screenshot(str(place / name))
            page.driver.get(report.as_uri())
            page.script("document.querySelector('h2').scrollIntoView()")
            page.driver.save_screenshot(str(place / REPORT))


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    draw(PICTURES)
