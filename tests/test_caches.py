"""Everything that a process keeps between calls has a bound: the caches of functions, and the containers of modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lakewright
from lakewright.catalog import rest_auth
from lakewright.spec import option_checks
from lakewright.storage import credentials

SOURCES = Path(lakewright.__file__).parent
CONTAINERS = frozenset(
    "dict list set OrderedDict defaultdict deque Counter WeakValueDictionary WeakKeyDictionary".split()
)

# What bounds each container of a module that grows while a process runs.
BOUNDS = {
    "metadata/table_store.py: _identities": "_IDENTITIES_MAX entries, then it is emptied",
    "metadata/snapshot_files.py: _last_seen": "_LAST_SEEN_MAX entries, then it is emptied",
    "metadata/manifest_files.py: CACHE": "the bytes of lakewright.manifest-cache",
    "maintenance/upkeep.py: _checked": "_PLACES_MAX entries, then it is emptied",
    "spark/computed_vectors.py: _CACHE": "_CACHE_BYTES_MAX",
    "formats/blob_values.py: _homes": "_HOMES_MAX entries, the oldest go",
    "formats/blob_values.py: _given": "the file objects whose bytes are still to be written",
    "spec/option_checks.py: _said": "_SAID_MAX entries, then it is emptied",
    "storage/credentials.py: _HOLDERS": "_HOLDERS_MAX entries, the oldest go",
    "catalog/rest_auth.py: _LOADED": "_LOADED_MAX entries, then it is emptied",
    "storage/storage_registry.py: _REGISTERED": "one entry for each scheme that a program registers",
    "catalog/sql_database.py: _databases": "one entry for each database that a program names",
    "catalog/sql_database.py: _inherited": "one entry for each fork between the first process and this one",
    "cli/interrupts.py: _noted": "one entry for each Ctrl-C, emptied when the next command begins",
    "spark/native_scan.py: _scanned_tables": "_TABLES_MAX tables with _SNAPSHOTS_MAX snapshots each",
    "spark/spark_session.py: _executors_of": "one entry for each Connect session that a program opens",
    "spark/spark_session.py: _refused": "one entry for each setting that a session refuses",
    "spark/spark_session.py: _held": "the settings that running jobs hold",
    "statements/embedded/duckdb_query.py: _OPEN": "the connections in which queries run",
    "otel.py: _installed": "one listener",
}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    return [(str(path.relative_to(SOURCES)), ast.parse(path.read_text())) for path in sorted(SOURCES.rglob("*.py"))]


def is_empty_container(value: ast.expr | None) -> bool:
    """Say whether an expression makes a container without anything in it, or an object that is named as a cache."""
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
            return (name in CONTAINERS and not args) or name.endswith("Cache")
        case _:
            return False


def containers() -> Iterator[str]:
    """Yield the names of modules' containers that are empty at first, so that something must fill them."""
    for module, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and is_empty_container(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (f"{module}: {target.id}" for target in targets if isinstance(target, ast.Name))


def unbounded_functions() -> Iterator[str]:
    """Yield the functions of modules and classes whose cache keeps an answer for each argument without a bound."""
    for module, tree in modules():
        bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
        for node in (node for body in bodies for node in body if isinstance(node, ast.FunctionDef)):
            has_arguments = bool(node.args.args or node.args.kwonlyargs or node.args.vararg or node.args.kwarg)
            if any(is_unbounded(decorator, has_arguments=has_arguments) for decorator in node.decorator_list):
                yield f"{module}: {node.name}"


def is_unbounded(decorator: ast.expr, *, has_arguments: bool) -> bool:
    match decorator:
        case ast.Name(id="cache") | ast.Attribute(attr="cache"):
            return has_arguments
        case ast.Name(id="lru_cache") | ast.Attribute(attr="lru_cache"):
            return False  # 128 entries
        case ast.Call(func=ast.Name(id="lru_cache") | ast.Attribute(attr="lru_cache"), args=args, keywords=keywords):
            sizes = [*args[:1], *(keyword.value for keyword in keywords if keyword.arg == "maxsize")]
            return any(isinstance(size, ast.Constant) and size.value is None for size in sizes)
        case _:
            return False


def test_every_container_of_a_process_is_listed_with_its_bound() -> None:
    assert set(containers()) == set(BOUNDS)


def test_no_function_keeps_answers_without_a_bound() -> None:
    assert list(unbounded_functions()) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("@cache\ndef f(a): ...", True),
        ("@functools.cache\ndef f(*, a): ...", True),
        ("@cache\ndef f(): ...", False),
        ("@lru_cache(maxsize=None)\ndef f(a): ...", True),
        ("@lru_cache(None)\ndef f(a): ...", True),
        ("@lru_cache\ndef f(a): ...", False),
        ("@lru_cache(maxsize=8)\ndef f(a): ...", False),
    ],
)
def test_unbounded_caches_are_recognized_by_their_decorator(source: str, expected: bool) -> None:
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    assert (
        is_unbounded(function.decorator_list[0], has_arguments=bool(arguments.args or arguments.kwonlyargs)) == expected
    )


def test_the_memory_of_logged_options_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_checks, "_said", set())
    monkeypatch.setattr(option_checks, "_SAID_MAX", 8)
    assert [option_checks.first_time(f"place-{number}", "key") for number in range(20)] == [True] * 20
    assert len(option_checks._said) <= 8
    assert not option_checks.first_time("place-19", "key")


def test_holders_of_credentials_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_HOLDERS", {})
    monkeypatch.setattr(credentials, "_HOLDERS_MAX", 4)
    holders = [credentials._holder(number) for number in range(10)]
    assert len(credentials._HOLDERS) == 4
    assert credentials._holder(9) is holders[9]
    assert credentials._holder(0) is not holders[0]


def test_loaded_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_auth, "_LOADED", {})
    monkeypatch.setattr(rest_auth, "_LOADED_MAX", 4)
    for number in range(10):
        rest_auth.current_keys(rest_auth.GivenKeys(rest_auth.DlfKeys(f"id-{number}", "secret")), now=0.0)
    assert len(rest_auth._LOADED) <= 4
