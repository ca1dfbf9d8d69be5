"""The rows of the table, in its order. Each stands in the module of what it measures, with its contenders."""

from __future__ import annotations

import crowds
import decoded_values
import lines_in
import lines_out
import log_questions
import mirrors
import mounts
import object_storage
import pipelines
import queries
import served_logins
import served_logs
import served_tls
import single
import statistics_of_logs
import surface
import table_rows
import upkeep
import web_pages

import answers

SUBJECTS = {
    "Lines and records into a log": lines_in.ROWS,
    "Whole partitions out of a log": lines_out.ROWS,
    "Single records and look-ups": single.ROWS,
    "Compaction, recovery, verify, dump": upkeep.ROWS,
    "Waiting, ranges, JSON": surface.ROWS,
    "Many readers, writers and partitions": crowds.ROWS,
    "Mounts and commands": mounts.ROWS,
    "The broker": served_logs.ROWS,
    "The broker over TLS": served_tls.ROWS,
    "Logins": served_logins.ROWS,
    "Mirrors": mirrors.ROWS,
    "Tables": table_rows.ROWS,
    "Archives": object_storage.ROWS,
    "Spark": pipelines.ROWS,
    "SQL": queries.ROWS,
    "Values with a schema": decoded_values.ROWS,
    "The page": web_pages.ROWS,
    "Answers": (*answers.ROWS, *log_questions.ROWS, *statistics_of_logs.ROWS),
}
"""The rows of each module, by the heading of their table on the page."""

MODULES = tuple(SUBJECTS.values())

ROWS = tuple(row for rows in MODULES for row in rows)
