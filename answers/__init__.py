"""Answers to questions about logs: find, diff, stats, groups, doctor. Each verb returns a `Report`, or yields records.

The modules here read only, beside a broker or a mount, and work on anything that opens as log directories: directories,
archives, copies of a cluster. Commands print what they return (`cli/terminal/reports.py`).
"""
