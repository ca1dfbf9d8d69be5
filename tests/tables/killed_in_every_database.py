"""`scripts/soak tables`: syncs and loads that are killed, with SQLite, PostgreSQL and MariaDB, and a fresh seed.

Also syncs into tables of Iceberg and Delta Lake, beside a second sync and commits of another program.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

sys.path.append(str(Path(__file__).parents[1]))

from fixtures.databases import mariadb, postgres
from fixtures.databases.table_contract import KILLED_SYNCS

KILLED_LAKE_SYNCS = KILLED_SYNCS.with_name("killed_lake_syncs.py")


def main(kills: int) -> int:
    seed, has_failed = random.randrange(1 << 30), False
    with tempfile.TemporaryDirectory() as folder, postgres.running() as server, mariadb.running() as other:
        urls = {
            "SQLite": f"sqlite:///{folder}/messages.db",
            "PostgreSQL": f"postgresql://{postgres.USER}@127.0.0.1:{server.port}/postgres",
            "Iceberg": f"iceberg:{folder}/warehouse",
            "Delta Lake": f"delta:{folder}/delta",
            "MariaDB": f"mysql://{mariadb.USER}:{quote(mariadb.PASSWORD, safe='')}@127.0.0.1:{other.port}/offsetfs",
        }
        for name, url in urls.items():
            log = Path(folder) / name
            log.mkdir()
            program = KILLED_LAKE_SYNCS if url.startswith(("iceberg", "delta")) else KILLED_SYNCS
            words = [sys.executable, str(program), str(log), url, str(seed), str(kills)]
            done = subprocess.run(words, capture_output=True, text=True)
            has_failed |= done.returncode != 0
            counts = [*done.stdout.split(), "0", "0"]  # a lakehouse table has no loads
            outcome = "nothing missing or twice" if not done.returncode else done.stderr.strip()
            print(
                f"{name}, seed {seed}: {counts[0]} of {kills} syncs and {counts[1]} loads killed: {outcome}", flush=True
            )
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
