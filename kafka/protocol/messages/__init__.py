"""The messages of Kafka's protocol and their structs. `scripts/protocol-schemas` writes this package.

A module has the messages of one API. It is loaded when one of its classes is first asked for: all of them would take
2 MiB of memory, and more time than any other part of the start of a broker.

A field that a version does not have keeps its default. Ids have 16 bytes. `records` are whole record batches.
"""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
