"""docs/use/kafka-protocol.md has the APIs, the settings and the limits of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fixtures.broker.running import Running

from offsetfs.kafka.broker.batches.client_batches import RECORD_ERRORS_MAX
from offsetfs.kafka.broker.broker import DRAIN_S
from offsetfs.kafka.broker.groups.group_memory import GROUPS_BYTES_MAX, MEMBER_BYTES_MAX
from offsetfs.kafka.broker.settings import SETTING_KINDS, ServerSettings, field_of
from offsetfs.kafka.broker.topics.configs import SETTINGS_MAX
from offsetfs.kafka.broker.topics.topic_admin import PARTITIONS_MAX
from offsetfs.kafka.broker.transactions.transaction import ID_MIN
from offsetfs.kafka.protocol.codec import REQUEST_ELEMENTS_MAX
from offsetfs.storage import I32_MAX
from offsetfs.storage.records.format import batch
from offsetfs.storage.settings import BROKER_SETTING_NAMES

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[2] / "docs" / "use" / "kafka-protocol.md").read_text()
OTHER_SETTINGS = ("listeners", "advertised.listeners", "listener.security.protocol.map", "log.dirs")
WORDS = ("disk", "page-cache", "uniform,range", "bidirectional")
UNITS = {"": 1, "MiB": 1 << 20, "minutes": 60_000, "days": 86_400_000}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table of a section, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def value(text: str) -> int | str:
    """Return the number or the word that a cell of the page states, times in milliseconds."""
    if text in WORDS:
        return text
    if text == "none":
        return ""
    if text in ("no limit", "true", "false"):
        return I32_MAX if text == "no limit" else text == "true"
    found = re.fullmatch(r"(-?[\d,]+) ?([A-Za-z]*)", text)
    assert found, text
    return int(found[1].replace(",", "")) * UNITS[found[2]]


async def test_the_page_has_the_versions_of_each_api(running: Running) -> None:
    shown: dict[str, tuple[int, int]] = {}
    for names, versions, _ in rows("APIs"):
        ranges = re.findall(r"(\d+)(?:–(\d+))?", versions)
        shown.update(zip(names.split(", "), ((int(low), int(high or low)) for low, high in ranges), strict=True))
    offered = {api.name: (api.first, api.last) for api in running.broker._apis.values()}
    wrong = {name for name, _ in offered.items() ^ shown.items()}
    assert not wrong, f"update the versions of {wrong} in docs/use/kafka-protocol.md"


def test_the_page_has_each_setting_with_its_default() -> None:
    shown: dict[str, int | str] = {}
    for names, defaults, _ in rows("Settings"):
        found, values = re.findall(r"`([\w.]+)`", names), defaults.split("; ")
        own = [name for name in found if name in SETTING_KINDS]
        if own:
            shown.update(zip(own, map(value, values * len(own) if len(values) == 1 else values), strict=True))
        else:
            assert all(name in OTHER_SETTINGS or name in BROKER_SETTING_NAMES for name in found), found
    defaults_of = {name: getattr(ServerSettings(), field_of(name)) for name in SETTING_KINDS}
    in_ms = {name: each * 60_000 if name.endswith(".minutes") else each for name, each in defaults_of.items()}
    assert shown == {name: "" if each == () else each for name, each in in_ms.items()}


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    rules = {each[0]: each[2] for each in rows("APIs")}
    inflated = f"{batch.PAYLOAD_BYTES_MAX >> 20} MiB or {batch.INFLATED_RECORDS_MAX:,} records"
    assert inflated in rules["Produce"] and f"{RECORD_ERRORS_MAX:,} wrong records" in rules["Produce"]
    assert f"at most {PARTITIONS_MAX:,} partitions" in rules["CreateTopics, DeleteTopics, CreatePartitions"]
    assert ID_MIN == 2**40 and "from 2⁴⁰ on" in rules["InitProducerId"]
    assert f"more than {REQUEST_ELEMENTS_MAX:,} elements" in section("Limits")
    assert f"creates more than {PARTITIONS_MAX:,} partitions" in section("Limits")
    assert f"more than {SETTINGS_MAX:,} settings" in section("Limits")
    kept = f"more than {MEMBER_BYTES_MAX >> 20} MiB, or groups that keep more than {GROUPS_BYTES_MAX >> 20} MiB"
    assert kept in section("Limits")
    assert f"after {DRAIN_S:.0f} seconds" in section("Limits")
