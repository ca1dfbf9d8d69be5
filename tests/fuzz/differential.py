"""Generated requests to a Kafka 4.4 and to `offsetfs serve` for some time: differential.py [SECONDS] [--seed N].

Prints each difference that docs/evidence/differences.md does not accept, with the requests of its session. Ends with 0
if there is none.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import trio
from fixtures.comparison.accepted_differences import accepted_rows, shown
from fixtures.comparison.brokers import compared_broker, compared_kafka
from fixtures.comparison.generated_session import ask_generated, versions_of_both
from fixtures.comparison.generated_sessions import KINDS, ask_session
from fixtures.comparison.replay import Pair, Side, pair

SINGLE_ROUNDS = 2
SESSIONS = 20
"""How many sessions of each kind run between single requests."""

ANSWER_SECONDS, REPEAT_SECONDS = 5, 1
"""How long to wait for a response, and for Kafka to apply a change."""

SHOWN = 3
"""How many differences of one field are printed, with the requests of their sessions."""


async def campaign(there: str, here: str, seconds: float, seed: int, kinds: Sequence[str]) -> int:
    """Return how many fields differ that may not."""
    deadline = time.monotonic() + seconds
    asked, reporter = Counter[str](), Reporter()
    async with pair(Side(there, is_reference=True), Side(here), accepted_rows()) as brokers:
        brokers.answer_seconds, brokers.repeat_seconds = ANSWER_SECONDS, REPEAT_SECONDS
        versions = await versions_of_both(brokers)
        while time.monotonic() < deadline:
            if "single" in kinds:
                await ask_generated(brokers, versions, seed, SINGLE_ROUNDS)
                asked["single"] += 1
                reporter.report(brokers)
            for kind in (each for each in KINDS if each in kinds):
                for number in range(SESSIONS):
                    if time.monotonic() < deadline:
                        await ask_session(brokers, versions, kind, f"{seed}-{number}")
                        asked[kind] += 1
                        reporter.report(brokers)
            seed += 1
    print(dict(asked), f"next seed: {seed}")
    for place, count in reporter.shown.most_common():
        print(count, place)
    return len(reporter.shown)


class Reporter:
    """Prints differences that are not accepted. `shown`: how often each was found."""

    def __init__(self) -> None:
        self.shown = Counter[tuple[tuple[str, str], str, str]]()

    def report(self, brokers: Pair) -> None:
        """Print what is new, and forget it."""
        for each in (each for each in brokers.found if each.accepted is None):
            place = each.place, shown(each.difference.there)[:80], shown(each.difference.here)[:80]
            self.shown[place] += 1
            if self.shown[place] <= SHOWN:
                print(each, flush=True)
            if self.shown[place] == 1:
                print(*(f"        {line:.400}" for line in brokers.history.get(each.client, ())), sep="\n", flush=True)
        brokers.found.clear()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--kinds", nargs="*", default=["single", *KINDS])
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "logs").mkdir()
        kafka = stack.enter_context(compared_kafka(folder / "kafka"))
        broker = stack.enter_context(compared_broker(folder / "logs"))
        return int(trio.run(campaign, kafka.address, broker.address, options.seconds, options.seed, options.kinds) > 0)


if __name__ == "__main__":
    sys.exit(main())
