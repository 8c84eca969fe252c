"""Which files may hold matching rows: by partition, bucket, keys and statistics, one by one or many together."""
