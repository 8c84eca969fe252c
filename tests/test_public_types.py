"""The public surface as an editor sees it: no `Any`, a public name for every type that a call returns, listed choices.

Public are the names in `__all__` of `lakewright`, `lakewright.spark` and `lakewright.ray`, and the classes that
`lakewright` finds by topic: functions, and the methods,
properties and dataclass fields of classes, unless their names begin with an underscore.
"""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, get_args

import pytest

import lakewright as lw
from lakewright.spec.argument_checks import Distribution
from lakewright.spec.option_values import WriteDistribution
from support.api_page import BY_TOPIC

# Types of optional packages, which only type checkers import, and one that names itself and so cannot be resolved.
_FRAME = type("DataFrame", (), {})
_OPTIONAL = {
    "DataFrame": _FRAME,
    "Dataset": type("Dataset", (), {}),
    "SparkSession": type("SparkSession", (), {}),
    "TorchDataset": list,
    "duckdb": SimpleNamespace(DuckDBPyConnection=type("DuckDBPyConnection", (), {})),
    "JSON": object,
    "pd": SimpleNamespace(DataFrame=_FRAME),
    "pl": SimpleNamespace(DataFrame=_FRAME),
}

# What rooms of this package hand to each other through public objects. Users need none of it, so it has no public name.
INTERNAL = {
    "CallableFlag": "a boolean that can also be called, which users test and do not make",
    "MergeClause": "one clause of a merge, checked; users add clauses by the methods of MergeBuilder",
    "CommitSettings": "how engines that write and commit in one call commit a write of a builder",
    "Funnel": "counts of a scan, which ReadBuilder.explain shows",
    "IndexFile": "an index file in a commit message, which users only pass on",
    "KeyNames": "a list of names, which can also be called as pypaimon's system tables want it",
    "ChangePlan": "a merge, checked against the columns of its source",
    "OtherBranch": "a branch that is read beside that of the table, for reads and engines",
    "PreparedChange": "a change of rows before its commit",
    "Projection": "the columns of a read, for the engines",
    "Mutability": "when an option of an existing table can get another value",
    "TableOptions": "the parsed options of a table, which table.options shows in the form of pypaimon",
    "SeenSnapshot": "what identifies the snapshot that the writer of a commit message saw, which the commit reads",
    "MergeSide": "which of the two tables of a merge a ColumnRef is of, as source_col and target_col say",
    "Storage": "where the bytes of a catalog lie; users name it by options",
    "TableStore": "a table as the rooms below see it",
    "WriteJob": "a write as workers open it",
}


class Member(NamedTuple):
    """One public function, method, property or field, with the types that it names."""

    name: str
    hints: dict[str, object]

    @property
    def returned(self) -> object:
        """The type that a user receives."""
        return self.hints.get("return")


def _modules() -> list[ModuleType]:
    pytest.importorskip("ray.data", reason="Ray has no wheel for this Python or platform")
    return [lw, importlib.import_module("lakewright.spark"), importlib.import_module("lakewright.ray")]


def _names(module: ModuleType) -> list[str]:
    return [*module.__all__, *(BY_TOPIC if module is lw else ())]


def _members(module: ModuleType) -> Iterator[Member]:
    for name in _names(module):
        public = getattr(module, name)
        if inspect.isfunction(public):
            yield Member(name, _hints(public))
        elif isinstance(public, type) and not issubclass(public, Enum):
            yield from _members_of(public)


def _members_of(public: type) -> Iterator[Member]:
    for base in public.__mro__:
        if not base.__module__.startswith("lakewright"):
            continue
        for name, value in vars(base).items():
            found = value.func if isinstance(value, cached_property) else value
            found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
            if inspect.isfunction(found) and (name == "__init__" or not name.startswith("_")):
                yield Member(f"{public.__name__}.{name}", _hints(found))
    if is_dataclass(public):
        hints = _hints(public)
        for field in fields(public):
            if not field.name.startswith("_"):
                yield Member(f"{public.__name__}.{field.name}", {"return": hints[field.name]})


def _hints(found: object) -> dict[str, object]:
    return typing.get_type_hints(found, localns=_OPTIONAL)


def _parts(hint: object) -> Iterator[object]:
    yield hint
    for part in get_args(hint):
        yield from (inner for one in (part if isinstance(part, list) else [part]) for inner in _parts(one))


def test_no_public_signature_has_any() -> None:
    loose = {
        f"{member.name}: {argument}"
        for module in _modules()
        for member in _members(module)
        for argument, hint in member.hints.items()
        if any(part is Any for part in _parts(hint))
    }
    assert loose == set()


def test_every_type_that_a_public_call_returns_has_a_public_name() -> None:
    modules = _modules()
    known = {id(getattr(module, name)) for module in modules for name in _names(module)}
    nameless: dict[str, str] = {}
    for module in modules:
        for member in _members(module):
            for part in _parts(member.returned):
                if isinstance(part, type) and part.__module__.startswith("lakewright") and id(part) not in known:
                    nameless.setdefault(part.__name__, member.name)
    assert {name: member for name, member in nameless.items() if name not in INTERNAL} == {}
    assert INTERNAL.keys() <= nameless.keys(), "INTERNAL lists a type that nothing returns, or that has a public name"


def test_words_of_arguments_are_those_that_are_checked() -> None:
    assert get_args(Distribution) == tuple(member.value for member in WriteDistribution)
