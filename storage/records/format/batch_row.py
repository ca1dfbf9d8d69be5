"""The columns of a row of numbers that stands for the header of one batch, as `chain.headers` returns them.

The rows of a block are an `array("q")` with `COLUMNS` numbers for each batch. `POSITION` is that of the batch in the
file. `native/rows.pxd` has the same columns for C.
"""

COLUMNS = 12
POSITION, BASE_OFFSET, SIZE, LEADER_EPOCH, MAGIC_BYTE, ATTRIBUTES = range(6)
LAST_OFFSET_DELTA, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = range(6, COLUMNS)

HEADER_COLUMNS = (
    "position",
    "base_offset",
    "size",
    "leader_epoch",
    "magic",
    "attributes",
    "last_offset_delta",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)
"""The names of the columns, in their order; those of `BatchHeader` where it has them."""
