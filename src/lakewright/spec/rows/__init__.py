"""BinaryRow, the row format of the metadata: values in, bytes out, and back."""
