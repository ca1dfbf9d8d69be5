"""A client of Kafka clusters for raw record batches: connections to brokers, metadata, coordinators.

cluster      the brokers of a cluster, and which of them gets a request
connect      makes connections; all addresses of a host are tried
connection   one connection to one broker
metadata     brokers, topics and partitions of a cluster
group_offsets       committed offsets of a group, and commits on its behalf
partition_offsets   starts and ends of partitions, and offsets of times
properties   `client.properties`
errors       what fails, with cause and remedy
"""
