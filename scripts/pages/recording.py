"""Records the commands below in a real shell, and draws them as an animated picture: docs/recording.svg.

    recording.py FILE [PORT]    PORT: the port that stands for 9092

The commands run in a new folder with the log directory that scripts/demo leaves. The picture has their real output,
but times of its own, so that equal output makes an equal file. A program that shows no animations, or a reader who
wants none, sees the last screen.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = """\
offsetfs mount .cache/demo/broker mnt -o ro       # what a Kafka broker wrote
cat mnt/keyed-1/42; echo                          # the record at offset 42
readlink mnt/keyed-1/by-time/2026-11-20T18:40:01.200Z
grep -c key-18 mnt/keyed-1/values                 # all records of the partition
offsetfs umount mnt
offsetfs mount logs mnt -o create,listen=127.0.0.1:9092
mkdir mnt/orders-0                                # a partition
seq 1000000 >> mnt/orders-0/append                # a record for each line
cat mnt/orders-0/777777; echo
kcat -C -b 127.0.0.1:9092 -t orders -o -2 -e -q   # a Kafka client
offsetfs umount mnt
offsetfs sql logs 'SELECT count(*) AS records, max(value_text::INT) AS largest FROM orders'
""".splitlines()
PORT = "9092"
MARK = "\x1eCOMMAND"
ROW, COLUMN, LEFT, TOP = 19, 8.4, 16, 30
"""Pixels: the height of a line, the width of a character, the left and the upper margin."""
COLUMNS = 96
PER_CHARACTER_S, BEFORE_OUTPUT_S, AFTER_OUTPUT_S, AT_THE_END_S = 0.035, 0.3, 0.9, 6.0

Screen = list[tuple[str, list[str]]]
"""Commands, each with the lines that it printed."""


def main() -> int:
    """Write the file; return the exit code of the first command that failed, after what the shell printed."""
    if len(sys.argv) not in (2, 3):
        print("recording: name a file for the picture, such as docs/recording.svg", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        code, printed = record(Path(folder), *sys.argv[2:])
    if code:
        print(printed, file=sys.stderr)
        return code
    outputs = [part.splitlines() for part in printed.split(f"{MARK}\n")[1:]]
    Path(sys.argv[1]).write_text(drawn(list(zip(COMMANDS, outputs, strict=True))))
    return 0


def record(folder: Path, port: str = PORT) -> tuple[int, str]:
    """Run the commands in the folder; return the exit code of the shell, and what it printed."""
    beside = shutil.ignore_patterns("*.txt", "*.ndjson", "*.json")
    shutil.copytree(ROOT / "tests" / "golden" / "kafka-4.1", folder / ".cache" / "demo" / "broker", ignore=beside)
    for name in ("logs", "mnt"):
        (folder / name).mkdir()
    lines = ["set -e", "trap 'fusermount3 -uqz mnt || true' EXIT"]
    for command in COMMANDS:
        lines += [f"echo '{MARK}'", command.replace(PORT, port)]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.replace(port, PORT)


def drawn(screen: Screen) -> str:
    """Return the picture of the commands and their output, line by line."""
    rows = sum(1 + len(lines) for _, lines in screen)
    width, height = round(2 * LEFT + COLUMNS * COLUMN), 2 * TOP + rows * ROW
    seconds = sum(_typing(command) + BEFORE_OUTPUT_S + AFTER_OUTPUT_S for command, _ in screen) + AT_THE_END_S
    styles, texts = [], []
    now, y = AFTER_OUTPUT_S, TOP + ROW
    for number, (command, lines) in enumerate(screen):
        typed = now + _typing(command)
        begin, end, shown = (100 * moment / seconds for moment in (now, typed, typed + BEFORE_OUTPUT_S))
        styles.append(
            f"@keyframes c{number}{{0%,{begin:.2f}%{{clip-path:inset(0 100% 0 0);animation-timing-function:"
            f"steps({len(command)})}}{end:.2f}%,100%{{clip-path:inset(0)}}}}"
            f"@keyframes o{number}{{0%,{shown:.2f}%{{opacity:0}}{shown + 0.01:.2f}%,100%{{opacity:1}}}}"
        )
        code, hash_sign, comment = command.partition("  #")
        note = f'<tspan class="n">{escape(hash_sign + comment)}</tspan>' if comment else ""
        whole = f'<tspan class="p">$</tspan> {escape(code)}{note}'
        texts.append(f'<text x="{LEFT}" y="{y}" style="animation-name:c{number}">{whole}</text>')
        y += ROW
        for line in lines:
            texts.append(f'<text x="{LEFT}" y="{y}" class="o" style="animation-name:o{number}">{escape(line)}</text>')
            y += ROW
        now = typed + BEFORE_OUTPUT_S + AFTER_OUTPUT_S
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            "<title>Commands of offsetfs in a terminal, and what they print</title>",
            "<style>",
            "text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#e6edf3;white-space:pre;"
            f"animation-duration:{seconds:.2f}s;animation-iteration-count:infinite}}",
            ".p{fill:#7ee787}.n{fill:#8b949e}.o{fill:#c9d1d9}",
            *styles,
            "@media (prefers-reduced-motion:reduce){text{animation:none!important}}",
            "</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *(f'<circle cx="{LEFT + 4 + 18 * at}" cy="18" r="5" fill="#30363d"/>' for at in range(3)),
            *texts,
            "</svg>",
            "",
        ]
    )


def _typing(command: str) -> float:
    """Return the seconds in which a command appears."""
    return len(command) * PER_CHARACTER_S


if __name__ == "__main__":
    sys.exit(main())
