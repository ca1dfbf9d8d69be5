"""Keeps the topics of a log directory in step with a running cluster, batch for batch, at the same offsets.

options      what is mirrored, and how
mirror       the whole: topics of the source, their leaders, beginnings, ends
topics       which topics; their settings here
partition    one partition: how far it is, what is wrong with it
fetcher      one broker: requests to Fetch, and the appends of their responses
groups       committed offsets of consumer groups
session      what a fetch session of a broker has (KIP-227)
positions    offsets by time, ends of leader epochs
process      a process that mirrors: signals, background tasks, the end
status       what a running mirror shows to other processes
"""
