"""offsetfs: a Kafka log directory, mounted as a file system; or opened by a Python program.

    with offsetfs.open("/var/lib/kafka/data") as data:
        for record in data.partition("orders-0").read(-10):
            print(record.offset, record.key, record.value)

What is not needed is not loaded: the names below come when they are first asked for. docs/use/library.md shows them
all.
"""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)


def __dir__() -> list[str]:
    """Return the public names, also those that are not loaded yet, and none of what this module imports."""
    return list(__getattr__("__all__"))
