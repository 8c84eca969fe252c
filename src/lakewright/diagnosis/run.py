"""One diagnosis: this environment first, then the catalog and its storage, then Java and the workers of Spark."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from lakewright.catalog.base import Catalog
from lakewright.catalog.factory import CatalogFactory
from lakewright.diagnosis.checks import Check, Diagnosis
from lakewright.diagnosis.packages import check_packages, check_python
from lakewright.diagnosis.warehouse import check_storage
from lakewright.errors import LakewrightError
from lakewright.spec import arguments
from lakewright.spec.arguments import Path
from lakewright.storage.open import open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_CATALOG = "name a warehouse or a catalog to have its storage tried"
_NO_SESSION = "give a session (--spark of the command) to have its workers asked"


def diagnose(
    catalog: Catalog | Mapping[str, object] | Path | None = None,
    *,
    spark: SparkSession | None = None,
    say: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Check what tables need: Python and packages, the storage of a catalog, Java, and the workers of a Spark session.

    `catalog` is a catalog, its options, or the path of a warehouse. Below its warehouse a scratch file is written, put
    a second time (which must be refused), read, listed and deleted. Nothing raises: what fails is a check that says
    what to do. `say` hears the name of each step.

    >>> import tempfile, lakewright as lw
    >>> found = lw.diagnose(tempfile.mkdtemp())
    >>> found.is_healthy, [check.name for check in found.checks if check.name.startswith("storage.")]
    (True, ['storage.list', 'storage.write', 'storage.create-once', 'storage.read', 'storage.clock', 'storage.delete'])
    """
    heard = (lambda _: None) if say is None else arguments.function("say", say)
    if catalog is not None and not isinstance(catalog, str | os.PathLike | Mapping | Catalog):
        raise arguments.wrong("catalog", "a catalog, its options, or the path of a warehouse", catalog)
    heard("this environment")
    checks = [check_python(), *check_packages()]
    heard("the storage")
    checks += _of_catalog(catalog)
    heard("Java and the workers of Spark")
    checks += _of_spark(spark)
    return Diagnosis(tuple(checks))


def _of_catalog(catalog: Catalog | Mapping[str, object] | Path | None) -> Iterator[Check]:
    if catalog is None:
        yield Check("catalog", "skipped", "no catalog was named", _NO_CATALOG)
        return
    try:
        opened = _opened(catalog)
    except (LakewrightError, OSError) as error:
        yield Check("catalog", "failed", f"{type(error).__name__}: {error}", "check the options of the catalog")
        return
    kind = f"{type(opened).__name__} of {opened.warehouse or 'a server'}"
    try:
        yield Check("catalog", "ok", f"{kind}, {len(opened.list_databases()):,} databases")
    except (LakewrightError, OSError) as error:
        remedy = "check the address, the credentials and the rights"
        yield Check("catalog", "failed", f"{kind}: {type(error).__name__}: {error}", remedy)
    if "/" not in opened.warehouse:
        found = f"{opened.warehouse!r} is a name that the server knows: its tables bring their own credentials"
        yield Check("storage", "skipped", found, "verify a table to have its files read")
        return
    try:
        storage, place = open_storage(opened.warehouse, opened.options)
    except (LakewrightError, OSError) as error:
        yield Check("storage", "failed", f"{type(error).__name__}: {error}", "check the location and its options")
        return
    yield from check_storage(getattr(opened, "storage", storage), place)


def _opened(catalog: Catalog | Mapping[str, object] | Path) -> Catalog:
    if isinstance(catalog, str | os.PathLike):
        return CatalogFactory.create({"warehouse": arguments.path("catalog", catalog)})
    return CatalogFactory.create(catalog) if isinstance(catalog, Mapping) else catalog


def _of_spark(spark: SparkSession | None) -> Iterator[Check]:
    if importlib.util.find_spec("pyspark") is None:
        yield Check("java", "skipped", "Spark is not installed, and nothing else needs Java")
        yield Check("spark.workers", "skipped", "Spark is not installed", "pip install 'lakewright[spark]'")
        return
    from lakewright.spark.jobs.diagnosis import check_java, check_workers  # noqa: PLC0415 - a door

    yield check_java()
    if spark is None:
        yield Check("spark.workers", "skipped", "no session of Spark was given", _NO_SESSION)
    else:
        yield from check_workers(spark)
