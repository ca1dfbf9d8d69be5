"""Codecs of record batches, bounded while they inflate."""
