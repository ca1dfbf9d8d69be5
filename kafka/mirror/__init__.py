"""Mirrors topics of a running cluster into a log directory: the same batches at the same offsets.

options      what is mirrored, and how
mirror       topics of the source, their leaders, log starts and ends; one fetcher per broker
topics       selection of topics; their settings in the directory
partition    one partition: its offsets, its source broker, its error
fetcher      one broker: requests to Fetch, and the appends of their responses
groups       committed offsets of consumer groups
session      incremental fetch sessions (KIP-227)
last_records compares the last records with those of the source
positions    offsets by time, ends of leader epochs
survey       first and last offsets of partitions, and their bytes
process      a process that mirrors: signals, background tasks, the end
status       the state of a running mirror: for other processes, for Prometheus
"""
