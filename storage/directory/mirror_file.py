"""The source of a mirror: `.offsetfs-mirror.json`, written by `offsetfs mirror`.

    {"version": 0, "cluster.id": "MkU3…", "source": "broker1:9092,broker2:9092", "keep": false,
     "topics": {"orders": {"topic.id": "k5z…", "settings": {"retention.ms": "86400000"}, "settings.known": true,
                           "begun": [0, 1]}}}

The records of these topics are those of a cluster: appends of anything else are refused, because the next batch of the
cluster would then have offsets that are taken. `settings` are the topic's own at the source, all of them, by Kafka's
names and texts; those that apply here are in `.offsetfs-topics.json`. `settings.known`: false if the source does not
return them, for lack of a permission, or because it is too old. `keep`: the directory is an archive, whose
records are never deleted or compacted by a mirror. `begun`: partitions whose first offset is decided.
docs/internals/format/mirror.md says more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from offsetfs.storage import files
from offsetfs.storage.errors import InvalidCheckpoint

MIRROR_FILE = ".offsetfs-mirror.json"
_VERSION = 0
_BYTES_MAX = 1 << 26


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A topic of the source. `topic_id`: as Kafka prints it; empty where the brokers are older than 2.8."""

    topic_id: str
    settings: Mapping[str, str] = field(default_factory=dict)
    knows_settings: bool = True
    """Whether the source returns the settings. Otherwise they are unknown, and `settings` is empty."""
    begun: Collection[int] = ()
    """The numbers of the partitions whose first offset was decided: from then on each goes on where its log ends."""


@dataclass(frozen=True, slots=True)
class MirrorFile:
    """The content of the file."""

    cluster_id: str
    """Empty where the brokers are older than 0.10.1."""
    source: str
    topics: Mapping[str, MirroredTopic] = field(default_factory=dict)
    keep: bool = False
    """Whether records stay that the source deletes or compacts."""

    @classmethod
    def read(cls, directory: str) -> MirrorFile | None:
        """Return what the directory mirrors; None if it is not a mirror. `InvalidCheckpoint`, OSError."""
        path = os.path.join(directory, MIRROR_FILE)
        try:
            content = json.loads(files.read_file(path, _BYTES_MAX))
            if content["version"] != _VERSION:
                raise ValueError(f"version {content['version']}")
            keep = content.get("keep", False)
            if not isinstance(keep, bool):
                raise ValueError(f"keep is {json.dumps(keep)}, and must be true or false")
            topics = {name: _topic(topic) for name, topic in content["topics"].items()}
            return cls(str(content["cluster.id"]), str(content["source"]), topics, keep)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"unreadable ({error}); restore it, or remove it if the directory is not a mirror of a cluster"
            raise InvalidCheckpoint(reason, path=path) from error

    def write(self, directory: str) -> None:
        """Replace the file; durable on return. OSError."""
        topics = {
            name: {
                "topic.id": topic.topic_id,
                "settings": dict(sorted(topic.settings.items())),
                "settings.known": topic.knows_settings,
                "begun": sorted(topic.begun),
            }
            for name, topic in sorted(self.topics.items())
        }
        content = {
            "version": _VERSION,
            "cluster.id": self.cluster_id,
            "source": self.source,
            "keep": self.keep,
            "topics": topics,
        }
        files.replace_file(os.path.join(directory, MIRROR_FILE), json.dumps(content, indent=1).encode() + b"\n")


def _topic(content: Any) -> MirroredTopic:
    settings = {name: str(text) for name, text in content["settings"].items()}
    begun = frozenset(map(int, content.get("begun", ())))
    return MirroredTopic(str(content["topic.id"]), settings, bool(content.get("settings.known", True)), begun)
