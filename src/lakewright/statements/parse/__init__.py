"""The grammar of statements: text in, the values of `statements.model` out."""
