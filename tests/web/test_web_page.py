"""The page of `offsetfs web` in a real Chromium: each view, by mouse and by keyboard; hostile records are inert."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from fixtures.browser.chromium import Page, opened_page
from fixtures.browser.web_logs import write_web_logs
from fixtures.browser.web_process import web_process
from fixtures.logs.hostile_records import SCRIPT
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

import offsetfs
from offsetfs.cli import run

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts" / "pages"))
pictures = importlib.import_module("pictures")

AXE = ROOT / ".cache" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = {
    "/": ("Topics", ["4 and 1 internal", "orders", "hostile", "paid", "__consumer_offsets", "internal"]),
    "/topics/orders": ("orders", ["600", "Records by time", "segment.bytes", "12000"]),
    "/topics/paid/0": ("paid-0", ["Segments", "Aborted transactions", "last stable offset"]),
    "/records": ("Search records", ["Regular expression"]),
    "/records?topic=orders": ("orders", ["50 records, the newest", "customer-"]),
    "/records?topic=orders&partition=1&from=7": ("orders-1", ["orders-1/7", "Older", "Newer"]),
    "/records?topic=orders&text=lost": ("orders", ["60 found", "orders-0/0"]),
    "/groups": ("Consumer groups", ["billing"]),
    "/groups/billing": ("billing", ["orders-0", "150"]),
    "/findings": ("Findings", ["a broker starts", "offsetfs verify"]),
    "/schemas": ("Schemas", ["There is no topic _schemas"]),
    "/sql?statement=SELECT+topic%2C+count%28*%29+FROM+all_topics+GROUP+BY+1+ORDER+BY+1": ("SQL", ["orders", "600"]),
    "/nowhere": ("There is no such page", ["All topics"]),
}
"""Addresses, with the heading and texts of their views."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs")
    write_web_logs(path)
    return path


@pytest.fixture(scope="module")
def browser(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with web_process(logs) as (_, address), opened_page(address, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The browser. Its console must have nothing to say afterwards."""
    yield browser
    assert browser.complaints() == []


def test_each_view_has_an_address_of_its_own(page: Page) -> None:
    for path, (heading, texts) in VIEWS.items():
        page.open(path)
        assert page.heading == heading and page.driver.title == f"{heading} – offsetfs"
        for text in texts:
            page.until(lambda text=text: text in page.text)  # type: ignore[misc]
        assert "null" not in page.text.replace("orders-", ""), path
        unnamed = """return [...document.querySelectorAll("input,select,button,a,meter,[role=region]")].filter((each) =>
            !(each.labels?.length || each.getAttribute("aria-label") || each.textContent.trim())).length"""
        assert page.script(unnamed) == 0, path
        assert len(page.found("h1")) == 1 and len(page.found("main")) == 1
    assert page.script("return document.cookie") == "" and "token" not in page.driver.current_url


def test_links_lead_from_a_topic_to_a_record_and_back(page: Page) -> None:
    page.open("/")
    page.link("orders").click()
    page.wait_for("/topics/orders")
    page.link("1").click()
    page.wait_for("/topics/orders/1")
    assert len(page.found(".chart a[aria-label^='Segment']")) > 1
    page.script("document.querySelectorAll('.chart a[aria-label^=Segment] .hit')[1].dispatchEvent("
                "new MouseEvent('click', {bubbles: true, cancelable: true}))")  # fmt: skip
    page.until(lambda: page.found("table.records button"))
    place = page.one("table.records button").text
    assert f"from={place.rpartition('/')[2]}" in page.driver.current_url
    page.driver.back()
    page.wait_for("/topics/orders/1")
    page.driver.back()
    page.wait_for("/topics/orders")
    assert page.heading == "orders"


def test_a_record_opens_with_json_headers_and_bytes(page: Page) -> None:
    page.open("/records?topic=orders&partition=0&from=0")
    button = page.one("table.records button")
    button.click()
    page.until(lambda: page.found(".details .tree"))
    assert button.get_attribute("aria-expanded") == "true"
    details = page.one(".details")
    assert '"lost"' in details.text and "customer-0" in details.text
    next(each for each in page.found(".details button") if each.text == "Bytes").click()
    page.until(lambda: "7b 22 69 64 22" in details.text)
    button.click()
    assert page.found(".details") == []


def test_a_search_says_what_it_found_and_form_fields_are_its_address(page: Page) -> None:
    page.open("/records")
    page.one("input[name=topic]").send_keys("orders")
    page.one("input[name=text]").send_keys("LOST")
    page.one("input[name=ignore_case]").click()
    page.one("input[name=text]").send_keys(Keys.ENTER)
    page.until(lambda: page.found(".state") and "60 found" in page.one(".state").text)
    assert page.driver.current_url.endswith("/records?topic=orders&text=LOST&ignore_case=true")
    assert len(page.found("table.records button")) == 60
    assert page.script("return document.querySelector('a[href*=parquet]').href").endswith("&format=parquet")
    page.open("/records?topic=orders&where=nothing")
    page.until(lambda: "where: " in page.one("[role=status].bad").text and "nothing" in page.text)
    assert page.one("input[name=where]").get_attribute("value") == "nothing"
    page.open("/records?topic=orders&where=" + quote("value->>'status' = 'lost'"))
    page.until(lambda: "60 found" in page.text)
    page.open("/records?topic=orders&regex=(")
    page.until(lambda: "regex: missing )" in page.text)
    page.script("document.getElementById('view').dataset.ready = ''")
    assert any("400" in each for each in page.complaints())


def test_what_is_copied_can_be_pasted(page: Page, logs: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    page.open("/records?topic=orders&partition=1&from=7")
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )

    def copied(label: str, place: str) -> str:
        button = next(each for each in page.found(f"{place} button") if each.text == label)
        button.click()
        page.until(lambda: button.text == "Copied")
        return str(page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])"))

    assert copied("Copy command", ".actions") == f"offsetfs find {logs} orders-1 --from 7"
    page.one("table.records button").click()
    page.until(lambda: page.found(".details .tree"))
    assert copied("Copy path", ".details") == "orders-1/7"
    record = json.loads(copied("Copy JSON", ".details"))
    assert (record["partition"], record["offset"]) == (1, 7)
    words = shlex.split(copied("Copy command", ".details"))
    assert run(words[1:]) == 0
    assert json.loads(capfdbinary.readouterr().out)["offset"] == 7
    page.script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")  # as over http from elsewhere
    next(each for each in page.found(".details button") if each.text == "Copy path").click()
    page.until(lambda: page.script("return getSelection().toString()") == "orders-1/7")


def label_of(chart: WebElement) -> str:
    return str(chart.get_attribute("aria-label"))


def test_charts_have_labels_and_their_numbers_as_a_table(page: Page) -> None:
    page.open("/")
    page.until(lambda: len(page.found(".spark")) >= 4)
    labels = page.script(
        "return [...document.querySelectorAll('.spark')].map((each) => each.getAttribute('aria-label'))"
    )
    assert any(each.startswith("Records by time: 600, about 89.0 KiB") for each in labels), labels
    page.open("/groups/billing")
    assert [label_of(each).partition(":")[0] for each in page.found("svg.chart")] == [
        "Lag in records",
        "Lag in time",
    ]
    assert "at last 50" in label_of(page.one("svg.chart"))
    page.one(".as-table summary").click()
    page.until(lambda: len(page.found(".as-table tbody tr")) == 60)
    assert page.found(".as-table tbody tr")[-1].text.split()[2] == "50"
    for path, label in (
        ("SELECT value->>'status', count(*) AS records FROM orders GROUP BY 1 ORDER BY 1", "2 bars, at most 540"),
        ("SELECT date_trunc('hour', \"timestamp\") AS hour, count(*) FROM orders GROUP BY 1 ORDER BY 1", "count_star"),
        ("SELECT 'one', 2", None),
    ):
        page.open("/sql?statement=" + quote(path))
        charts = page.found("svg.chart")
        assert label in label_of(charts[0]) if label else not charts, path
    page.open("/topics/orders/0")
    assert "2026-11-18 11:06:40" in label_of(page.one(".chart a[aria-label^='Segment']"))


def test_following_shows_records_as_they_come(page: Page, logs: Path) -> None:
    page.open("/records?topic=paid&partition=0")
    before = len(page.found("table.records button"))
    next(each for each in page.found("button") if each.text == "Follow").click()
    with offsetfs.open(logs, "a") as directory:
        directory.partition("paid-0").append(b"just now")
    page.until(lambda: len(page.found("table.records button")) == before + 1)
    assert "just now" in page.text
    next(each for each in page.found("button") if each.text == "Stop following").click()


def test_the_keyboard_reaches_everything(page: Page) -> None:
    page.open("/")
    assert page.focused.text == "Topics"
    page.focused.send_keys("/")
    assert page.focused.get_attribute("type") == "search"
    page.focused.send_keys("ord")
    page.until(lambda: [each.text for each in page.found("tbody a")] == ["orders"])
    for _ in range(20):
        page.focused.send_keys(Keys.TAB)
        if page.focused.tag_name == "a":
            break
    assert page.focused.text == "orders"
    page.focused.send_keys(Keys.ENTER)
    page.wait_for("/topics/orders")
    assert page.focused.text == "orders" and page.focused.tag_name == "h1"
    page.open("/records?topic=orders")
    button = page.one("table.records button")
    page.script("arguments[0].focus()", button)
    page.focused.send_keys(Keys.ENTER)
    page.until(lambda: page.found(".details"))


@pytest.mark.security(
    "Markup and scripts in records, keys, headers and names are shown as text, and hidden characters by their numbers."
)
def test_hostile_records_are_inert_and_can_be_read(page: Page) -> None:
    page.open("/records?topic=hostile")
    for button in page.found("table.records button"):
        button.click()
    page.until(lambda: "1.0 MiB" in page.text or "cut; the whole has 9.5 MiB" in page.text)
    assert SCRIPT in page.text and "<b>name</b>" in page.text
    assert "⟨U+202E⟩gpj.exe⟨U+202C⟩" in page.text and "⟨U+200B⟩" in page.text
    assert page.found("#view script") == page.found("#view img") == page.found("#view b") == []
    assert page.driver.title == "hostile – offsetfs"
    page.open("/topics/" + "%3Cscript%3Edocument.title%3D1%3C%2Fscript%3E")
    page.until(lambda: "there is no topic <script>document.title=1</script>" in page.text)
    assert page.driver.title == "It failed – offsetfs"
    assert any("404" in each for each in page.complaints())


def test_ten_thousand_rows_are_few_elements(page: Page) -> None:
    page.open("/")
    made = page.driver.execute_async_script("""
        const done = arguments[0];
        import("/static/dom.js").then(({ table }) => {
          const rows = Array.from({ length: 10000 }, (_, number) => ({ number }));
          const columns = [{ heading: "n", number: true, sort: (row) => row.number, cell: (row) => row.number }];
          const box = table(columns, rows, "many");
          document.getElementById("view").replaceChildren(box);
          done(box.scrollHeight);
        });
    """)
    assert made > 300_000
    assert len(page.found("#view tbody tr")) < 200
    page.script("document.querySelector('.scroll').scrollTop = 1e9")
    page.until(lambda: "9999" in page.text)
    page.one("thead button").click()
    page.until(lambda: page.one("#view tbody tr td").text == "9999")
    assert page.one("thead th").get_attribute("aria-sort") == "descending"
    assert len(page.found("#view tbody tr")) < 200


def test_no_view_breaks_a_rule_of_accessibility(page: Page) -> None:
    broken = []
    for path in VIEWS:
        page.open(path)
        if path == "/":
            page.until(lambda: len(page.found(".spark")) >= 4)
        if "partition=1" in path:
            page.one("table.records button").click()
            page.until(lambda: page.found(".details .tree"))
        page.script(AXE.read_text())
        for scheme in ("light", "dark"):
            media = [{"name": "prefers-color-scheme", "value": scheme}]
            page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
            assert page.script("return matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
            found = page.driver.execute_async_script("axe.run().then(arguments[0])")
            assert found["passes"], path
            broken += [
                (path, scheme, rule["id"], node["target"], node["failureSummary"])
                for rule in found["violations"]
                for node in rule["nodes"]
            ]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert not broken, "\n".join(map(str, broken))


def test_the_pictures_of_the_documentation_show_each_view(page: Page) -> None:
    for name, path in pictures.VIEWS.items():
        pictures.show(page, path)
        assert page.driver.get_screenshot_as_png().startswith(b"\x89PNG"), name
    drawn = {*pictures.VIEWS, pictures.REPORT}
    assert {each.name for each in pictures.PICTURES.iterdir()} == drawn
    assert sum(each.stat().st_size for each in pictures.PICTURES.iterdir()) < 1_000_000
    pages = "".join(each.read_text() for each in (ROOT / "docs" / "use").glob("*.md"))
    assert all(f"../pictures/{name})" in pages for name in drawn)


def test_a_phone_scrolls_no_view_sideways(page: Page) -> None:
    size = page.driver.get_window_size()
    try:
        page.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 700, "deviceScaleFactor": 2, "mobile": True}
        )
        for path in VIEWS:
            page.open(path)
            assert page.script("return document.documentElement.scrollWidth") <= 360, path
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert page.driver.get_window_size() == size
