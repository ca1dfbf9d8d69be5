"""Fuzz parsers: fuzz_campaign.py TARGET SECONDS [LIBFUZZER-OPTION…]. Exits with 0 when nothing was found; else prints
the input and keeps it.

Without arguments, each line of standard input is such a list of arguments in JSON, with the file for what libFuzzer
prints before them, and is answered with the exit code: importing what is watched takes longer than most campaigns.

The plain-Python codec is the one that is watched for coverage; `batch` also holds the compiled one equal to it.
What is found goes to `tests/fuzz/corpus/TARGET/`, from where every later run begins.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["OFFSETFS_PURE"] = "1"

import atheris

with atheris.instrument_imports(include=["offsetfs"]):
    from targets import TARGETS, seeds


def main() -> None:
    if len(sys.argv) > 1:
        sys.exit(fuzz(*sys.argv[1:]) != 0)
    for line in sys.stdin:
        output, *arguments = json.loads(line)
        with open(output, "wb") as written:
            print(fuzz(*arguments, printed_to=written.fileno()), flush=True)


def fuzz(name: str, seconds: str, *more: str, printed_to: int | None = None) -> int:
    """Fuzz one parser in a child process, which libFuzzer ends; return its exit code, negative for a signal."""
    kept = Path(__file__).parent / "corpus" / name
    kept.mkdir(parents=True, exist_ok=True)
    limits = [
        f"-max_total_time={seconds}",
        "-rss_limit_mb=1024",
        "-timeout=10",
        "-max_len=65536",
        "-print_final_stats=1",
    ]
    with tempfile.TemporaryDirectory(prefix="offsetfs-corpus-") as corpus:
        for number, seed in enumerate(seeds(name)):
            (Path(corpus) / f"golden-{number}").write_bytes(seed)
        child = os.fork()
        if not child:
            if printed_to is not None:
                os.dup2(printed_to, sys.stdout.fileno())
                os.dup2(printed_to, sys.stderr.fileno())
            atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={kept}/", *more, corpus, str(kept)], TARGETS[name])
            atheris.Fuzz()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
