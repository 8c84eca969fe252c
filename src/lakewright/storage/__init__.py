"""Stored bytes: the one protocol for disks and object stores, and the paths of a table."""
