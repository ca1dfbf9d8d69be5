"""Restores a log directory into a running cluster: topics, records, offsets of consumer groups.

topic_plan     the topics of the directory, and what the cluster has of them
partition_source   the records of a partition as batches of a producer
translation    source offsets into those of the cluster
partition_target   the batches of a partition on their way
producing      requests of Produce to the leaders
group_plan     committed offsets of groups
restoring      all of it, in order
"""
