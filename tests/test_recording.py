"""The recording in the README: its commands run, and print what docs/recording.svg shows."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.machine.free_ports import free_port

pytestmark = pytest.mark.mount

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "docs" / "recording.svg"


def test_the_recording_shows_what_its_commands_print_today(tmp_path: Path) -> None:
    program = tmp_path / "offsetfs"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m offsetfs "$@"\n')
    program.chmod(0o755)
    script = ROOT / "scripts" / "pages" / "recording.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "recording.svg"), str(free_port())],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "recording.svg").read_text() == RECORDING.read_text(), "scripts/recording draws it again"
