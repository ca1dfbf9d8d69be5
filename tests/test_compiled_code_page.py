"""docs/internals/compiled-code.md names each compiled module with its reference, and the limits that the code has."""

import re
from pathlib import Path

import pytest

from offsetfs.storage.records.format import batch

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "internals" / "compiled-code.md").read_text()
LIMITS = (ROOT / "docs" / "use" / "limits.md").read_text()


def test_the_page_names_each_compiled_module_and_a_reference_that_is_there() -> None:
    rows = re.findall(r"^\| `(storage/\S+\.pyx)` \| `(\S+\.py)` \|", PAGE, re.MULTILINE)
    assert sorted(compiled for compiled, _ in rows) == sorted(
        str(path.relative_to(ROOT)) for path in ROOT.glob("storage/native/*.pyx")
    )
    assert [reference for compiled, reference in rows if not (ROOT / reference).exists()] == []


def test_the_limits_of_a_batch_are_those_of_the_code() -> None:
    for limit in (batch.INFLATED_RECORDS_MAX, batch.HEADERS_MAX):
        assert f"| {limit:,} |" in PAGE and f"{limit:,}" in LIMITS
    assert f"| {batch.PAYLOAD_BYTES_MAX >> 20} MiB |" in PAGE and f"{batch.PAYLOAD_BYTES_MAX >> 20} MiB" in LIMITS
