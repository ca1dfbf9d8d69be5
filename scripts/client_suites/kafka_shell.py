"""Kafka's shell scripts, as suites call them: `bin` and `libs` of a folder for KAFKA_PATH."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tests"))
from fixtures.kafka.programs import JARS, JAVA, java

TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


def prepare_kafka_folder(folder: Path) -> None:
    """Write the scripts that suites call; does nothing if they are there."""
    commands = {name: shlex.join(java(main_class, log_level="warn")) for name, main_class in TOOLS.items()}
    commands["kafka-run-class.sh"] = f'{shlex.join(JAVA)} -cp "$CLASSPATH:{JARS}/*"'
    scripts = folder / "bin"
    scripts.mkdir(parents=True, exist_ok=True)
    for name, command in commands.items():
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)
    libraries = folder / "libs"
    if not libraries.is_symlink():
        libraries.symlink_to(JARS)
