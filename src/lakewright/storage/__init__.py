"""Bytes: disks and object stores behind one protocol; paths of a table."""
