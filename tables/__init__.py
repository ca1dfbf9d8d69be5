"""Records as rows: Arrow record batches, SQL, and tables of databases."""
