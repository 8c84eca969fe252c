"""The log-structured merge tree of a bucket: key order, runs, merging, and what to compact. No storage here."""
