"""What a caller asks of a compaction: arguments in; checked choices, or an estimate of what would be done, out."""
