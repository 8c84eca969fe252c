"""What engines share when tasks change a table: a call in, tasks' messages home, one commit, clean-up.

    call -> write_job -> job (run, verify, publish, remove losers) -> write, compaction

An engine adds how to ship a function to its workers and how to bring bytes home. Always holds: workers never commit.
"""
