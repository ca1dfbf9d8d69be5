"""Differences of two sources of logs: the records of each partition, and what the directories keep beside them.

logs         two logs of one partition, by bytes and by records at the same offsets
keys         by the latest value of each key
contents     by the contents of records in order
streams      the committed records of a log as digests
directories  the partitions of two sources, in parallel
report       the result as a `Report`
"""
