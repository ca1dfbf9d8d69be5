"""Tables of SQLite."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from fixtures.databases.decoded_table_contract import FIRST, SECOND, DecodedTableContract, encoded
from fixtures.databases.table_contract import Synced, TableContract, log, synced
from fixtures.logs.schema_records import schema_record, write_log, write_schemas
from fixtures.stores.schema_registry import http_answer, serving

from offsetfs.cli.commands.table import _opened
from offsetfs.schemas import registry_schemas
from offsetfs.schemas.masks import Masks
from offsetfs.schemas.registry_client import RETRY_S
from offsetfs.schemas.registry_schemas import open_registry
from offsetfs.storage import LogDirectory
from offsetfs.tables.databases.decoding import TableDecoding
from offsetfs.tables.databases.layout import COLUMNS, DECODING_ERROR

__all__ = ["log", "synced"]

pytestmark = pytest.mark.unit


class TestSqlite(TableContract):
    """The contract."""


class TestDecodedSqlite(DecodedTableContract):
    """The contract of decoded values."""

    def test_a_schema_that_a_header_names_is_used(self, synced: Synced) -> None:
        guid = "00112233-4455-6677-8899-aabbccddeeff"
        write_schemas(synced.path, [schema_record("orders-value", 1, 1, json.dumps(FIRST), guid=guid)])
        named = (("\udcff", b"x"), ("__value_schema_id", b"\1" + bytes.fromhex(guid.replace("-", ""))))
        write_log(synced.path, "orders-0", [(b"k", encoded(1, FIRST)[5:], named), (b"k", encoded(1, FIRST), ())])
        assert self.run(synced, "--create") == 0
        assert self.column(synced, "id") == [1, 1] and self.column(synced, "value_error") == [None, None]

    def test_columns_grow_by_the_newest_version_of_a_registry(
        self, synced: Synced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
        self.add(synced, encoded(1, FIRST))
        with serving() as registry:
            registry.add(1, FIRST, subject="orders-value", version=1)
            assert self.run(synced, "--create", "--schema-registry", registry.url) == 0
            registry.add(2, SECOND, subject="orders-value", version=2)
            self.add(synced, encoded(2, SECOND, id=1 << 40, grown="new"))
            assert self.run(synced, "--schema-registry", registry.url) == 0
        assert self.column(synced, "id") == [1, 1 << 40] and self.column(synced, "grown") == [None, "new"]

    def test_a_sync_that_goes_on_asks_a_registry_for_the_newest_version_once_in_a_while(
        self, synced: Synced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
        self.add(synced, encoded(1, FIRST))
        seconds, columns = [0.0], (*COLUMNS, DECODING_ERROR)
        later = pa.array([encoded(9, FIRST)], pa.binary())
        for name, value in (("UNKNOWN_S", 0), ("ASKED_AGAIN_MAX", 1 << 62)):
            monkeypatch.setattr(registry_schemas, name, value)
        with serving() as registry, closing(LogDirectory.open(str(synced.path), read_only=True)) as directory:
            registry.add(1, FIRST, subject="orders-value", version=1)
            assert self.run(synced, "--create", "--schema-registry", registry.url) == 0
            with _opened(synced.url, None, "messages", "", columns, may_create=False, remedy="") as table:
                found = open_registry(registry.url)
                decoding = TableDecoding(directory, table, "orders", {}, Masks(), found, now=lambda: seconds[0])
                assert decoding._schema.decoder.values.decode(later).reasons[0].as_py() == "schema 9 is unknown"
                registry.add(9, FIRST)
                decoding.refresh()
                assert decoding._schema.decoder.values.decode(later).reasons[0].as_py() is None
                registry.add(2, SECOND, subject="orders-value", version=2)
                for after, is_there in ((0.0, False), (RETRY_S, True)):
                    seconds[0] = after
                    decoding.refresh()
                    assert any(column.name == "grown" for column in decoding._columns) == is_there
                registry.raw = lambda path: [http_answer(b"{}", "500 Internal Server Error")]
                seconds[0] = 3 * RETRY_S
                decoding.refresh()
