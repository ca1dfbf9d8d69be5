"""Where the time of our daemon goes while a row is measured: samples by py-spy, or counts by cProfile.

py-spy sees all threads and the compiled parts, and slows nothing down; cProfile comes with Python, sees the event loop
alone, and makes small functions look dearer than they are. Our daemon is started anew in many rows; the profiles of all
its lives are added up.
"""

from __future__ import annotations

import os
import pstats
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mounted

SAMPLES_PER_SECOND = 500
SHOWN = 40


@contextmanager
def profiled(folder: Path) -> Iterator[None]:
    """Let our daemons run under a profiler; print what it saw at the end."""
    py_spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    wrapper = folder / "profiler"
    command = (
        f'"{py_spy}" record --native --threads -r {SAMPLES_PER_SECOND} -f raw -o "{folder}/$$.raw" -- "$@"'
        if py_spy
        else f'"$1" -m cProfile -o "{folder}/$$.pstats" "${{@:2}}"'
    )
    wrapper.write_text(f"#!/usr/bin/env bash\n{command} > /dev/null\n")
    wrapper.chmod(0o755)
    mounted.profiler[:] = [str(wrapper)]
    try:
        yield
    finally:
        mounted.profiler.clear()
    if py_spy:
        _print_samples(sorted(folder.glob("*.raw")))
    else:
        _print_counts(sorted(folder.glob("*.pstats")))


def _print_samples(files: list[Path]) -> None:
    """Print by function: samples with it on top of the stack, and with it anywhere."""
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for file in files:
        for row in file.read_text().splitlines():
            stack, _, count = row.rpartition(" ")
            frames = stack.split(";")
            own[frames[-1]] += int(count)
            within.update(dict.fromkeys(frames, int(count)))
    total = sum(own.values()) or 1
    for title, counts in (("itself", own), ("with what it calls", within)):
        print(f"\n  %   samples   {title}")
        for frame, count in counts.most_common(SHOWN):
            print(f"{count / total:5.1%} {count:8}   {frame}")


def _print_counts(files: list[Path]) -> None:
    if files:
        statistics = pstats.Stats(*map(str, files))
        statistics.sort_stats("tottime").print_stats(SHOWN)
