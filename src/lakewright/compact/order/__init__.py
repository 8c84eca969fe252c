"""Sorting the rows of an append table: columns in, one sort key per row; rows in any order in, sorted files out."""
