"""Tables of SQLite."""

from __future__ import annotations

import json

import pytest
from fixtures.databases.decoded_table_contract import FIRST, DecodedTableContract, encoded
from fixtures.databases.table_contract import Synced, TableContract, log, synced
from fixtures.logs.schema_records import schema_record, write_log, write_schemas

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
