"""Differences of two sources of logs: the records of each partition, and what the directories keep beside them.

logs         two logs of one partition, by bytes and by records at the same offsets
directories  the partitions of two sources, in parallel
report       the result as a `Report`
"""
