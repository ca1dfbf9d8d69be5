"""SQL over a log directory: each topic is a table of DuckDB.

    statement ──► DuckDB ──► TopicTable.scanner(columns, filter)
                               │ pruning: the offsets that the filter can match
                               ▼
                             LogReader ──► Arrow record batches ──► DuckDB

Reads only; knows neither the mount nor a broker. Needs the packages of the extra `sql`.
"""
