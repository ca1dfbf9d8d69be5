"""Restores a log directory into a running cluster: topics, records, offsets of consumer groups.

topic_plan         topics of the directory compared with those of the cluster
limits             limits of the cluster that records exceed
partition_target   batches of a partition that are queued or in flight; source offsets as those of the cluster
producing          records as batches of a producer; requests of Produce to the leaders
group_plan         committed offsets of groups
restore_to_cluster   the steps of a restore, in order
"""
