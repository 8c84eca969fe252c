"""What engines share when tasks change a table: a call in, one commit of the messages of all tasks out, with clean-up.

    call -> write_job -> job (run, verify, publish, remove losers) -> write, compaction

An engine adds how to ship a function to its workers and how to bring bytes to the driver. Always holds: workers never
commit.
"""
