"""The directories of the user cache in which mirrors of clusters are kept, one for each cluster.

~/.cache/offsetfs/kafka/CLUSTER             of `mount kafka://`, and of commands that read whole topics
~/.cache/offsetfs/kafka/CLUSTER-parts       of commands that read a part of a topic, such as its last hour
~/.cache/offsetfs/kafka/CLUSTER-internal    of commands that read Kafka's own topics, such as `__consumer_offsets`
"""

from __future__ import annotations

import hashlib
import os
import re

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common import user_directories

_IN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def user_cache(cluster: str, option: str, suffix: str = "") -> str:
    """Return the path of the cache of a cluster; `Failure` without a home directory.

    `cluster`: its id, or else the addresses of brokers. `option`: the option that names another path.
    """
    base = user_directories.cache_directory(os.environ)
    if base is None:
        raise Failure(f"there is no home directory for a cache; name one with {option}", WRONG_CALL)
    # A peer's text may be any string.
    name = cluster if _IN_NAME.match(cluster) else hashlib.sha256(cluster.encode()).hexdigest()[:32]
    return os.path.join(base, "kafka", name + suffix)
