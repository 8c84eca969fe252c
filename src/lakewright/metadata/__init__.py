"""Snapshots, schemas, manifests, refs, and the authority that decides which snapshot is newest."""
