"""What docs/use/semantics.md says of looking after a mount, typed into a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.pages.said import Said, run

pytestmark = pytest.mark.mount

SEEING = [
    Said(
        "`.offsetfs/errors` lists recent errors: errno, operation, path, cause and remedy.",
        "(echo 'no JSON' > $p/append.ndjson) 2> /dev/null; tail -n 1 .offsetfs/errors | "
        'grep -c "EINVAL write $p/append.ndjson: line 1, byte 1: .*; "',
        "1\n",
    ),
    Said(
        "A write of a partition's name, or of `*` for all, to `.offsetfs/flush` returns when its records are on disk.",
        "echo a > $p/append; echo $p > .offsetfs/flush && jq .recovery_point $p/info; echo '*' > .offsetfs/flush && "
        "echo all",
        "1\nall\n",
    ),
    Said(
        "`.offsetfs/stats` is a table to read, `metrics` the same for Prometheus, `config` the options.",
        "grep -c '[a-z]' .offsetfs/stats > $s/lines; [ $(cat $s/lines) -gt 3 ] && echo table; "
        "grep -q '^# TYPE offsetfs_.* counter$' .offsetfs/metrics && echo metrics; "
        "grep -q delete-records .offsetfs/config && "
        "echo options",
        "table\nmetrics\noptions\n",
    ),
    Said(
        "A level written to `.offsetfs/log-level` takes effect at once.",
        "echo debug > .offsetfs/log-level; cat .offsetfs/log-level; echo info > .offsetfs/log-level; "
        "echo loud 2>&1 > .offsetfs/log-level | grep -o 'Invalid.*'",
        "debug\nInvalid argument\n",
    ),
]


@pytest.mark.parametrize("said", SEEING, ids=str)
def test_the_step_behaves_as_its_sentence_states(tree: Path, tmp_path: Path, said: Said) -> None:
    run(tree, tmp_path, said, f"s{SEEING.index(said)}-0")
