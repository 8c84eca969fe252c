"""What every engine shares when tasks change a table: a call in, tasks' messages home, one commit, clean-up.

An engine adds how to ship a function to its workers and how to bring bytes home. Workers never commit.
"""
