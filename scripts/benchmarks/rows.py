"""The rows of the table, in its order. Each stands in the module of what it measures, with its contenders."""

from __future__ import annotations

import crowds
import lines_in
import lines_out
import mirrors
import mounts
import object_storage
import pipelines
import queries
import served_logins
import served_logs
import served_tls
import single
import surface
import table_rows
import upkeep

MODULES = (
    lines_in.ROWS,
    lines_out.ROWS,
    single.ROWS,
    upkeep.ROWS,
    surface.ROWS,
    crowds.ROWS,
    mounts.ROWS,
    served_logs.ROWS,
    served_tls.ROWS,
    served_logins.ROWS,
    mirrors.ROWS,
    table_rows.ROWS,
    object_storage.ROWS,
    pipelines.ROWS,
    queries.ROWS,
)
"""The rows of each module."""

ROWS = tuple(row for rows in MODULES for row in rows)
