"""The runner of background tasks: failures postpone tasks, and end nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from offsetfs.common import task_runner
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit


class _FailingQueue:
    """A queue of background tasks whose first run fails."""

    def __init__(self, again: trio.Event) -> None:
        self.runs = 0
        self._again, self._token = again, trio.lowlevel.current_trio_token()

    def next_due(self) -> float:
        return 0.0 if self.runs < 2 else float("inf")

    def run_due(self) -> None:
        self.runs += 1
        if self.runs == 1:
            raise MemoryError
        self._token.run_sync_soon(self._again.set)


@pytest.mark.expect_log("background tasks are postponed")
async def test_a_background_task_that_fails_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runner, "POSTPONED_S", 0)
    directory = LogDirectory.open(str(tmp_path))
    again = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            queue: Any = _FailingQueue(again)
            nursery.start_soon(task_runner.TaskRunner([directory])._run_queue, queue)
            await again.wait()
            nursery.cancel_scope.cancel()
    directory.close()
    assert queue.runs == 2
