"""Schemas of records: where they come from, which schema a record names, and values decoded by them. Synchronous.

references       the bytes by which a record names its schema, in every form
catalog          versions of subjects, by id, GUID and fingerprint; references between schemas
schemas_topic    the topic `_schemas`, as Confluent's registry, Karapace and Redpanda write it
registry_…       schemas of a registry over HTTP: settings, client, JSON, and the cache on disk
background_registry  the same for mounts, whose readers do not wait
schema_files     schemas in files of the user
avro_fingerprint CRC-64-AVRO of a schema
schema_usage     counts of records by the schema that they name
formats          the formats of schemas, and the interface of their decoders
avro_format      Avro as a format
avro_schema      schemas of Avro as types
avro_program     the program by which the engine decodes values of one schema as the type of another
avro_arrow       decoded values as arrays of Arrow
named_rows       rows of a column by the schema that they name
newest_values    the newest values of a topic, for readers whose columns depend on them
json_format      JSON Schema as a format
json_schema      JSON Schema as types of columns
json_columns     the program that decodes values of JSON, and decoded values as arrays of Arrow
protobuf_text    the text of `.proto` files, and protobuf_descriptors their descriptors, as protobuf_declarations
protobuf_schema  messages with their names resolved; protobuf_builtin has the files that need no reference
given_values     values of JSON that are encoded; encoding has lines, avro_encoding and protobuf_encoding formats
protobuf_program, protobuf_arrow, protobuf_json, protobuf_wire, protobuf_format    the same as those of Avro
column_json      columns as lines of JSON for people
json_texts       values as texts of JSON, each by its own schema
decoding         the values of a topic, decoded by the schemas that they name
decoded_lines    records as lines of JSON with decoded values
"""
