"""The log engine: Kafka's files, read and written. Synchronous; imports no event loop, no FUSE, nothing above it.

The names below are the core of its API (docs/internals/engine.md). The subpackages with a stub of their own are
the rest of it, one for each part of the engine; `offsetfs.storage.errors` has what all of them raise. A name is loaded
when it is first asked for, so that a command loads no more of the engine than it uses."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
