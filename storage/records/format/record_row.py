"""The columns of a row of numbers that stands for one record, as `codec.scan` returns them.

    offset delta | timestamp delta | key position | key size | value position | value size | headers position | count

A scan is an `array("q")` with `COLUMNS` numbers for each record, because an object for each record would cost more than
reading it. Positions count from the start of the payload; the size of a null is -1. In rows of messages of v0 and v1
the headers position is that of the message, and there are no headers. `native/rows.pxd` has the same columns for C.
"""

COLUMNS = 8
OFFSET_DELTA, TIMESTAMP_DELTA, KEY_POSITION, KEY_SIZE = range(4)
VALUE_POSITION, VALUE_SIZE, HEADERS_POSITION, HEADERS_COUNT = range(4, COLUMNS)

MESSAGE_POSITION = HEADERS_POSITION
"""The column with the position of the message, in rows of v0 and v1."""
