"""Log directories in Apache Spark: the data source `offsetfs`, and jobs over whole directories.

Knows the engine's public names and PySpark, nothing of the mount. Importing this package imports no PySpark; its
modules do.
"""

from offsetfs.pipeline.session import register

__all__ = ["register"]
