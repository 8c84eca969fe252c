"""The metadata of a table: schemas, snapshots, manifests, tags and consumers, read and written through the storage."""
