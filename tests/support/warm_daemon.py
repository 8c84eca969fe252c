"""The process that Spark forks its Python workers from, with everything imported that a task of ours needs.

Otherwise each worker imports pandas, pyarrow and the library before its first task, and tests that kill workers make
Spark start many.
"""

from __future__ import annotations

import importlib

for name in ("pandas", "pyarrow.dataset", "pyarrow.parquet", "pyspark.worker", "lakewright.spark"):
    importlib.import_module(name)

if __name__ == "__main__":
    importlib.import_module("pyspark.daemon").manager()
