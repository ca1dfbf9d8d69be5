"""Authentication by SASL (RFC 4422): mechanisms without I/O, and the part of a connection before its first request.

exchange            the interface of a mechanism; the error of a failed login
passwords           PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512
scram_credentials   the stored keys of a password
oauthbearer         OAUTHBEARER; tokens
"""
