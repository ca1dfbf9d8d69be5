"""Tables of PostgreSQL, in the real server."""

from __future__ import annotations

from collections.abc import Iterator

import postgres
import pytest
from postgres import Postgres
from table_contract import TableContract, log, synced

__all__ = ["log", "synced"]

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres.running() as found:
        yield found


@pytest.fixture
def url(server: Postgres) -> str:
    server.ask("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return f"postgresql://{postgres.USER}@127.0.0.1:{server.port}/postgres"


class TestPostgres(TableContract):
    """The contract."""
