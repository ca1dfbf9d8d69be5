"""Logs in object storage: archives of log directories, written, verified, restored, and read in place.

object_store         objects below a URL: read, put, create, list; one kind of error
urls                 which texts are URLs of object storage
numbered_documents   documents that are replaced by numbered copies, so that two writers cannot overwrite each other
archiver             uploads what an archive lacks of a log directory, and publishes the new states
segment_upload, archived_objects     the upload of one segment; objects that go up once
expiry               deletes what retention allows
restoring            partitions of an archive into a log directory
verifying            checks all bytes
manifest             what an archive holds of a partition, and where

Synchronous: no event loop. fsspec and what it needs for a URL are imported when a URL is opened, not before.
docs/internals/format/archive.md draws the objects.
"""
