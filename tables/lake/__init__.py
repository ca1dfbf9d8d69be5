"""Topics as tables of a lakehouse: Apache Iceberg and Delta Lake.

lake_sync      the loop over partitions: plans commits, reads records, follows
lake_columns   columns of raw and of decoded records
data_files     Arrow record batches as Parquet files of about one size
iceberg_table, delta_table   one format each: creation, columns, progress, commits
lake_location  which format and place an argument names

Files are written first; one atomic commit then adds them to the table together with the next offset of each partition.
So a record is neither missing nor there twice, whenever the process ends. What a killed run has written without a
commit belongs to no table: the formats' own maintenance removes such files. No Python object is made for a record.
"""
