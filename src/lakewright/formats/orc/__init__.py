"""ORC files: Arrow columns in, one file and its statistics out, and back."""
