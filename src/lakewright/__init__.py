"""Apache Paimon tables from Python, in one process or on a Spark cluster, installed by pip alone."""

__version__ = "0.1.0"
