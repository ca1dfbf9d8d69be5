"""Draw the pictures of `offsetfs web` in docs/pictures/ again: views of a log directory of the tests, in Chromium.

PATH=$PWD/.venv/bin:$PATH PYTHONPATH=tests python scripts/pages/pictures.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from fixtures.browser.chromium import opened_page
from fixtures.browser.web_logs import write_web_logs
from fixtures.browser.web_process import web_process

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
VIEWS = {
    "web-topic.png": "/topics/orders",
    "web-partition.png": "/topics/orders/0",
    "web-records.png": "/records?topic=orders&text=lost",
}


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        logs.mkdir()
        write_web_logs(logs)
        with (
            web_process(logs) as (_, address),
            opened_page(address, Path(folder, "profile"), width=1000, height=760) as page,
        ):
            for name, path in VIEWS.items():
                page.open(path)
                if path.startswith("/records"):
                    page.until(lambda: "60 found" in page.text)
                    page.one("table.records button").click()
                    page.until(lambda: page.found(".details .tree"))
                page.driver.save_screenshot(str(PICTURES / name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
