"""What a dataset holds, as Arrow."""

from __future__ import annotations

import pyarrow as pa
import ray
from ray.data import Dataset


def arrow_of(dataset: Dataset) -> pa.Table:
    """Run a dataset and return its rows as its own blocks have them."""
    return pa.concat_tables(ray.get(dataset.to_arrow_refs()))
