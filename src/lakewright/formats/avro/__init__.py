"""Avro files: Arrow columns in, records in blocks out, and back; the container is also that of manifests."""
