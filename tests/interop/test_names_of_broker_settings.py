"""Kafka's own list of broker settings is known here."""

import shutil
import subprocess
from pathlib import Path

import pytest
from fixtures.kafka.programs import JARS

from offsetfs.storage.settings.broker_settings import is_broker_setting

pytestmark = pytest.mark.interop


def test_kafkas_own_list_of_names_is_known(tmp_path: Path) -> None:
    """Kafka itself is asked for the names of its settings."""
    source = tmp_path / "Names.java"
    source.write_text(
        "public class Names { public static void main(String[] words) {"
        " org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF.names().forEach(System.out::println); } }"
    )
    java = shutil.which("java")
    assert java is not None
    done = subprocess.run([java, "-cp", f"{JARS}/*", source], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert len(names) > 300 and [name for name in names if not is_broker_setting(name)] == []
