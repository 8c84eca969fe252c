"""The REST catalog's protocol: typed calls in, HTTP requests out, and what servers answer as values and errors.

A request is repeated only where that is safe; whoever asks for a change learns whether it may have happened. Secrets
are never part of an error or of the text form of a value.
"""
