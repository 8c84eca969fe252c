"""Which files to rewrite, rewriting them, publishing the result."""
