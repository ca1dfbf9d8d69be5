"""Records of logs as Arrow record batches, for Spark, for SQL and for the library. Needs pyarrow and numpy."""
