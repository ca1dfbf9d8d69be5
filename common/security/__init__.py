"""TLS (PEM files, X.509) and SASL (JAAS, SCRAM) for both ends of a connection."""
