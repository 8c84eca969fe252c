"""The functions of Spark that run in this process, each with Spark's meaning; every other one is refused by name."""
