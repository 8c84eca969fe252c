"""The process that Spark forks its Python workers from, with everything imported that a task of ours needs.

Otherwise each worker imports pandas, pyarrow and the library before its first task, and tests that kill workers make
Spark start many.
"""

from __future__ import annotations

import gc
import importlib
import sys

# Spark puts a jar on the path of its workers, and each of them reads the directory of that archive, which is long.
sys.path[:] = [folder for folder in sys.path if not folder.endswith(".jar")]
for name in ("pandas", "pyarrow.dataset", "pyarrow.parquet", "pyspark.worker", "lakewright.spark"):
    importlib.import_module(name)

if __name__ == "__main__":
    sys.path_importer_cache.clear()
    # PySpark collects garbage after each task, which looks at every imported object: longer than most tasks here take.
    gc.collect()
    gc.freeze()
    importlib.import_module("pyspark.daemon").manager()
