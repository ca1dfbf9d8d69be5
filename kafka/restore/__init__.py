"""Restores a log directory into a running cluster: topics, records, offsets of consumer groups.

topic_plan     topics of the directory compared with those of the cluster
partition_source   the records of a partition as batches of a producer
limits         what the cluster would refuse of the records
translation    source offsets into those of the cluster
partition_target   batches of a partition that are queued or in flight
producing      requests of Produce to the leaders
group_plan     committed offsets of groups
restore_to_cluster   the steps of a restore, in order
"""
