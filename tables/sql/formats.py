"""The formats in which rows are written, with the options of DuckDB's COPY."""

COPY_OPTIONS = {
    "csv": "FORMAT csv, HEADER true",
    "json": "FORMAT json, ARRAY true",
    "ndjson": "FORMAT json",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
