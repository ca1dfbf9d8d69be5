"""What a log directory mirrors: `.offsetfs-mirror.json`, written by `offsetfs mirror`.

    {"version": 0, "cluster.id": "MkU3…", "source": "broker1:9092,broker2:9092",
     "topics": {"orders": {"topic.id": "k5z…", "settings": {"retention.ms": "86400000"}}}}

The records of these topics are those of a cluster: appends of anything else are refused, because the next batch of the
cluster would then have offsets that are taken. `settings` are the topic's own at the source, all of them, by Kafka's
names and texts; those that apply here are in `.offsetfs-topics.json`. docs/internals/format/mirror.md says more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class MirrorFile:
    """The content of the file."""

    cluster_id: str
    """Empty where the brokers are older than 0.10.1."""
    source: str
    topics: Mapping[str, MirroredTopic] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: str) -> MirrorFile | None:
        """Return what the directory mirrors; None if it is no mirror. `InvalidCheckpoint`, OSError."""
        path = os.path.join(directory, MIRROR_FILE)
        try:
            content = json.loads(files.read_file(path, _BYTES_MAX))
            if content["version"] != _VERSION:
                raise ValueError(f"version {content['version']}")
            topics = {
                name: MirroredTopic(str(each["topic.id"]), {key: str(text) for key, text in each["settings"].items()})
                for name, each in content["topics"].items()
            }
            return cls(str(content["cluster.id"]), str(content["source"]), topics)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"unreadable ({error}); restore it, or remove it if the directory is no mirror of a cluster"
            raise InvalidCheckpoint(reason, path=path) from error

    def write(self, directory: str) -> None:
        """Replace the file; durable on return. OSError."""
        topics = {
            name: {"topic.id": each.topic_id, "settings": dict(sorted(each.settings.items()))}
            for name, each in sorted(self.topics.items())
        }
        content = {"version": _VERSION, "cluster.id": self.cluster_id, "source": self.source, "topics": topics}
        files.replace_file(os.path.join(directory, MIRROR_FILE), json.dumps(content, indent=1).encode() + b"\n")
