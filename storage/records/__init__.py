"""The bytes of records: batches of every format, codecs, checksums, walks over chains of batches, lines of JSON."""
