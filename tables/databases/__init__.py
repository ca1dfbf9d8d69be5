"""Copies topics of a log directory into a table of a database, row by record, and back into a log.

syncing        the loop over partitions: reads records, adds rows, follows
deletions      removes rows whose records the log no longer has
loading        rows into the partitions of a log directory
load_journal   the file that says which topics a load has begun
messages_table the table and its progress: statements that every database has
record_rows    the records of a batch as columns of the table
message_uuids  the id of a message, from its producer or its place
header_json    headers as JSON
opening        opens the database of a URL
database_urls  parses URLs of databases
postgres, sqlite, sqlalchemy_database   one database each: types, bulk inserts, errors

Synchronous: no event loop. Rows and progress are committed in one transaction, so that a row is neither missing nor
there twice, whenever the process or the database ends. The log directory is only read by a sync, also beside a writer.
"""
