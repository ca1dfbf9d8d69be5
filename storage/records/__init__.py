"""The bytes of records: batches of every format, codecs, checksums, walks over chains of batches, lines of JSON."""

from offsetfs.lazy_names import lazy_names

__getattr__ = lazy_names(__name__)
