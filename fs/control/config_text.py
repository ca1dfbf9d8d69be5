"""`.offsetfs/config`: the options and settings in use, as an INI file.

[mount]           every option of the mount, defaults included; NAME=VALUE as after -o
[directory]       Kafka's broker settings that differ from their defaults
[without effect]  names of broker settings that have no effect on a mount
[left out]        settings in the metadata log that are not valid
[topic orders]    settings of a topic that differ from Kafka's defaults, from any source
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offsetfs.fs.options import MountOptions
from offsetfs.storage import AnyLogDirectory
from offsetfs.storage.settings import DEFAULTS


def text(directory: AnyLogDirectory, options: MountOptions) -> bytes:
    """Return the content of the file. Reads the settings of every topic and opens no log."""
    return "\n".join(_lines(directory, options)).encode("utf-8", "surrogateescape")


def _lines(directory: AnyLogDirectory, options: MountOptions) -> Iterator[str]:
    named = {**options.topic_defaults, **options.all_broker_settings}
    yield from _section("mount", {name: value for name, value in options.texts().items() if name not in named})
    yield from _section("directory", options.all_broker_settings)
    if options.without_effect:
        yield "[without effect]"
        yield from options.without_effect
    if problems := directory.setting_problems:
        yield "[left out]"
        yield from problems
    defaults = DEFAULTS.properties()
    for topic in sorted({partition.topic for partition in directory.partitions()}):
        settings = directory.config_of(topic).properties()
        yield from _section(f"topic {topic}", {n: v for n, v in settings.items() if defaults.get(n) != v})
    yield ""


def _section(name: str, settings: Mapping[str, str]) -> Iterator[str]:
    if settings:
        yield f"[{name}]"
        yield from (f"{setting}={value}" for setting, value in settings.items())
