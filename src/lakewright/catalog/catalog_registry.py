"""Catalogs by `metastore`; named catalogs of the environment.

`~/.config/lakewright.toml` has the catalogs of a user, `lakewright.toml` in this directory or one above it those of a
project, which win; a variable such as `LAKEWRIGHT_CATALOGS__PROD__TOKEN` sets one option, and wins over both.

    default = "dev"

    [catalogs.dev]
    warehouse = "./warehouse"        # as the file sees it

    [catalogs.prod]
    metastore = "rest"
    uri = "https://catalog.example.com"
    token = "${PROD_TOKEN}"          # a variable of the environment
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.filesystem_catalog import open_filesystem
from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakewright.spec import argument_checks
from lakewright.storage.credentials import Credentials, Provider, credentials_of

# ---- Catalogs by metastore -------------------------------------------------------------------------------------------

Opener: TypeAlias = Callable[[Mapping[str, str], Credentials | None], Catalog]


@dataclass(frozen=True, slots=True)
class CatalogKind:
    """How the catalogs of one `metastore` are opened."""

    open: Opener
    address: str  # the option with the address that credentials are for
    has_path: bool = False  # its `warehouse` may be a path of this machine


def _open_rest(options: Mapping[str, str], credentials: Credentials | None) -> Catalog:
    from lakewright.catalog.rest_catalog import open_rest  # noqa: PLC0415 - servers need urllib3

    return open_rest(options, credentials)


def _open_jdbc(options: Mapping[str, str], credentials: Credentials | None) -> Catalog:
    from lakewright.catalog.sql_catalog import open_jdbc  # noqa: PLC0415 - SQL databases need a driver

    return open_jdbc(options, credentials)


CATALOGS = {
    "filesystem": CatalogKind(open_filesystem, "warehouse", has_path=True),
    "rest": CatalogKind(_open_rest, "uri"),
    "jdbc": CatalogKind(_open_jdbc, "warehouse", has_path=True),
}


class CatalogFactory:
    """Creates catalogs from Paimon's option keys."""

    @staticmethod
    def create(catalog_options: Mapping[str, object], *, credentials: Provider | None = None) -> Catalog:
        """Open a catalog: `metastore` says which kind, `warehouse` where, storage options how to get there.

        A `filesystem` catalog, which is the default, has databases as directories of its warehouse, which may be a
        `pathlib.Path`. A `rest` catalog is a server at `uri`, a `jdbc` catalog a SQL database.

        `credentials` is a function without arguments that returns the keys of an object store as storage options, and
        when they expire: `expires_at`, a datetime with a zone, or `expiresAtMillis`. It is called in each process, also
        on workers of Spark and Ray, once per life of the keys; so it must be one that can be sent there: a function of
        a module, an object with plain values, or, with engines that send code along, any function.

        >>> import tempfile
        >>> CatalogFactory.create({"warehouse": tempfile.mkdtemp()}).list_databases()
        []
        """
        options = argument_checks.check_text_mapping("catalog_options", catalog_options)
        metastore = options.get("metastore", "filesystem").strip().lower()
        kind = CATALOGS.get(metastore)
        if kind is None:
            raise UnsupportedError(
                f"metastore {metastore!r} is not supported; use one of {', '.join(CATALOGS)}", metastore=metastore
            )
        return kind.open(options, credentials_of(credentials, options.get(kind.address, "")))


# ---- Named catalogs of the environment -------------------------------------------------------------------------------

FILE = "lakewright.toml"
CATALOG, CONFIG = "LAKEWRIGHT_CATALOG", "LAKEWRIGHT_CONFIG"
_OPTION = "LAKEWRIGHT_CATALOGS__"
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class NamedCatalogs:
    """The catalogs that files and variables name, and which of them is meant without a name."""

    options: Mapping[str, Mapping[str, str]]
    default: str | None
    files: tuple[str, ...]  # that were read
    environment: Mapping[str, str] = field(repr=False)

    def of(self, name: str) -> dict[str, str]:
        """Return the options of a catalog, with the values of variables in place of `${NAME}`."""
        if name not in self.options:
            known = ", ".join(sorted(self.options)) or "none"
            where = " and ".join(self.files) or f"~/.config/{FILE} or {FILE} of a project"
            raise NotFoundError(
                f"there is no catalog {name!r} (named in {where}: {known}); add [catalogs.{name}] there, or give "
                "--warehouse; a name of a database or table with a dot in it needs back-quotes",
                catalog=name,
            )
        return {key: self._substitute_environment(name, key, value) for key, value in self.options[name].items()}

    def _substitute_environment(self, name: str, key: str, value: str) -> str:
        missing = next((one for one in _VARIABLE.findall(value) if one not in self.environment), None)
        if missing is not None:
            raise InvalidInputError(
                f"the catalog {name!r} takes {key!r} from ${missing}, which is not set: export {missing}=...",
                catalog=name,
            )
        return _VARIABLE.sub(lambda found: self.environment[found[1]], value)


def named_catalogs(environment: Mapping[str, str] | None = None, directory: Path | None = None) -> NamedCatalogs:
    r"""Return the catalogs that the files and the variables name.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / FILE).write_text('[catalogs.dev]\nwarehouse = "/lake"')
    >>> named_catalogs({"HOME": "/nowhere", "LAKEWRIGHT_CATALOGS__DEV__S3__REGION": "eu"}, place).of("dev")
    {'warehouse': '/lake', 's3.region': 'eu'}
    """
    variables = os.environ if environment is None else environment
    options: dict[str, dict[str, str]] = {}
    default, files = None, []
    for path in _files(variables, Path.cwd() if directory is None else directory):
        own_default, own = _read(path)
        files.append(str(path))
        default = own_default or default
        options |= own
    for name, key, value in _from_variables(variables):
        options.setdefault(name, {})[key] = value
    return NamedCatalogs(options, variables.get(CATALOG) or default, tuple(files), variables)


def _files(variables: Mapping[str, str], directory: Path) -> Iterator[Path]:
    """Yield the files that exist: that of the user, then that of the project."""
    own = variables.get(CONFIG)
    if own and not Path(own).expanduser().is_file():
        raise NotFoundError(f"there is no file {own}, which ${CONFIG} names: correct or unset it", path=own)
    home = variables.get("XDG_CONFIG_HOME") or str(Path(variables.get("HOME") or "~").expanduser() / ".config")
    user = Path(own).expanduser() if own else Path(home) / FILE
    if user.is_file():
        yield user
    above = (place / FILE for place in (directory, *directory.parents))
    project = next((path for path in above if path.is_file() and path != user), None)
    if project is not None:
        yield project


def _read(path: Path) -> tuple[str | None, dict[str, dict[str, str]]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} is not TOML: {error}", path=str(path)) from None
    wrong = next((key for key in content if key not in {"default", "catalogs"}), None)
    if wrong is not None:
        raise InvalidInputError(
            f"{path}: {wrong!r} is neither 'default' nor a table [catalogs.NAME]: correct or remove it", path=str(path)
        )
    default, catalogs = content.get("default"), content.get("catalogs", {})
    if not isinstance(default, str | None) or not isinstance(catalogs, dict):
        raise InvalidInputError(
            f"{path}: 'default' is the name of a catalog, and 'catalogs' has a table for each: [catalogs.NAME]",
            path=str(path),
        )
    return default, {name: _options(path, name, options) for name, options in catalogs.items()}


def _options(path: Path, name: str, given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        raise InvalidInputError(
            f"{path}: the catalog {name!r} is a table of options: [catalogs.{name}]", path=str(path)
        )
    options = dict(_flat(path, name, given))
    place = options.get("warehouse")
    kind = CATALOGS.get(options.get("metastore", "filesystem"))
    if place and kind is not None and kind.has_path and "://" not in place and "$" not in place:
        options["warehouse"] = str((path.parent / Path(place).expanduser()).absolute())
    return options


def _flat(path: Path, name: str, given: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield options with their full keys: a table inside a catalog stands for the part of a key before a dot."""
    for key, value in given.items():
        match value:
            case dict():
                yield from _flat(path, name, value, f"{before}{key}.")
            case bool():
                yield f"{before}{key}", "true" if value else "false"
            case str() | int() | float():
                yield f"{before}{key}", str(value)
            case _:
                raise InvalidInputError(
                    f"{path}: the option {before}{key} of the catalog {name!r} is a {type(value).__name__}: write a "
                    "text, a number, true or false",
                    path=str(path),
                )


def _from_variables(variables: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the options that variables set: `__` stands for a dot, `_` for a hyphen."""
    for variable, value in sorted(variables.items()):
        name, sign, key = variable.removeprefix(_OPTION).partition("__")
        if variable.startswith(_OPTION) and sign and name and key:
            yield name.lower(), key.lower().replace("__", ".").replace("_", "-"), value
