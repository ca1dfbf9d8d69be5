"""Logs in object storage: archives of log directories, written, verified, restored, and read in place.

object_store         objects below a URL: read, put, create, list; one kind of error
google_objects, azure_objects, webhdfs_objects     requests to Google Cloud Storage, Azure Blob Storage and HDFS; those
                     of S3 are s3fs's
hadoop_settings      the namenodes of a URL of HDFS
store_libraries      errors of the libraries as OSError, with the remedy; the ends of their connections
urls                 which texts are URLs of object storage
numbered_documents   documents that are replaced by numbered copies, so that two writers cannot overwrite each other
archiver             uploads what an archive lacks of a log directory, and publishes the new states
segment_upload, archived_objects     the upload of one segment; objects that go up once
expiry               deletes what retention allows
restore_to_directory partitions of an archive into a log directory
verifying            checks all bytes
states               the times of the states of each partition
reading              `attach`: from then on every reader takes the URL of an archive for a path
remote_tree          an archive as the tree of files that `storage.files` reads
remote_segment, remote_file     the files of a segment; open files
block_fetcher, block_cache      blocks from the store, verified; those on the local disk
manifest             what an archive holds of a partition, and where

Synchronous: no event loop. fsspec and what it needs for a URL are imported when a URL is opened, not before.
docs/internals/format/archive.md draws the objects.
"""
