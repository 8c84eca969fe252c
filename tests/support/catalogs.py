"""The contract of catalogs, with the marks of this project."""

from __future__ import annotations

import pytest

from contract.catalog_names import InDatabase
from contract.catalog_suite import CatalogContract


class MarkedCatalogContract(CatalogContract):
    """The contract; `make quick` leaves out what starts processes."""

    @pytest.mark.processes
    def test_a_table_in_another_process(self, db: InDatabase) -> None:
        super().test_a_table_in_another_process(db)
