"""The error of a mirror that cannot begin."""

from __future__ import annotations


class MirrorError(Exception):
    """The directory cannot be a mirror of the cluster. The message has the remedy."""
