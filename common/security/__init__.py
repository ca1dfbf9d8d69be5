"""What both ends of a connection need for TLS (PEM files, X.509) and SASL (JAAS, SCRAM)."""
