"""Which bucket a row goes to: rows in, groups of one partition and bucket out, for every bucket mode."""
