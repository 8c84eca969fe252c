"""The command line: text and JSON views of the same calls that programs make."""
