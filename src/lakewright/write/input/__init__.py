"""What callers hand in: frames and batches of any shape in, rows of exactly the table's columns out."""
