"""Changes of a table: two snapshots, or a stream of them, in; splits and rows of what changed out."""
