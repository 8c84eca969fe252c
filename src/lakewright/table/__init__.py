"""One table and its verbs, and the builders that write and change it."""
