"""Authentication by SASL (RFC 4422): mechanisms without I/O, and the part of a connection before its first request.

exchange            what a mechanism does with the messages of a client; why a login fails
plain               PLAIN, and the users of a JAAS configuration
scram               SCRAM-SHA-256 and SCRAM-SHA-512
scram_credentials   what is stored of a password
oauthbearer         OAUTHBEARER; tokens
"""
