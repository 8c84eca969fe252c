"""Verification: a table in, proof that its files hold what its metadata says, or a list of findings, out."""
