"""`offsetfs stats`: what is in a log directory: records, bytes, codecs, times, sizes, keys, producers, gaps.

partition_scan    reads partitions in threads; at one of two depths: headers of batches, or all records
header_facts      what the headers of batches say
time_counts       records by time
codec_samples     ratios of compression, and what other codecs would need, from a sample of batches
due_tasks         what retention and compaction would do now
stats_report      the report of all of it
"""
