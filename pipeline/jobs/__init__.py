"""Bulk jobs over log directories: each a function `job(spark, …) -> Result`, and a verb of `offsetfs spark`.

Descriptors go out to the tasks and summaries come back: Python workers read and write segments themselves, and only
small rows pass through the JVM. Workers read the log directory, not a mount of it, under the same path everywhere;
`workers.check_visible` asks before.
"""
