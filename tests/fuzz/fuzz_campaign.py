"""Fuzz one parser: fuzz_campaign.py TARGET SECONDS [LIBFUZZER-OPTION…]. Exits with 0 when nothing was found; else
prints the input and keeps it.

The plain-Python codec is the one that is watched for coverage; `batch` also holds the compiled one equal to it.
What is found goes to `tests/fuzz/corpus/TARGET/`, from where every later run begins.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ["OFFSETFS_PURE"] = "1"

import atheris

with atheris.instrument_imports(include=["offsetfs"]):
    from targets import TARGETS, seeds


def main() -> None:
    name, seconds, more = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    kept = Path(__file__).parent / "corpus" / name
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="offsetfs-corpus-") as corpus:
        for number, seed in enumerate(seeds(name)):
            (Path(corpus) / f"golden-{number}").write_bytes(seed)
        limits = [
            f"-max_total_time={seconds}",
            "-rss_limit_mb=1024",
            "-timeout=10",
            "-max_len=65536",
            "-print_final_stats=1",
        ]
        atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={kept}/", *more, corpus, str(kept)], TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
