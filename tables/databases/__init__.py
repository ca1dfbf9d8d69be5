"""Copies topics of a log directory into a table of a database, row by record, and back into a log.

syncing        the loop over partitions: reads records, adds rows, follows
deletions      removes rows whose records the log no longer has
loading        rows into the partitions of a log directory; the file with the topics of a load
messages_table the table and its progress: statements that every database has
record_rows    the records of a batch as columns of the table, with their ids and headers as JSON
database       the interface of a database; opens the one of a URL
table_location URLs of databases, names of tables
layout         names of columns, errors
postgres, sqlite, sqlalchemy_database   one database each: types, bulk inserts, errors

Synchronous: no event loop. Rows and progress are committed in one transaction, so that a row is neither missing nor
there twice, whenever the process or the database ends. The log directory is only read by a sync, also beside a writer.
"""
