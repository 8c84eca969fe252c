"""Names of databases, tables, tags and branches in, parts of URLs out.

Every name is one segment of a path, encoded as HTML forms are, which is what servers decode. The names `.` and `..` are
refused: HTTP programs on the way take them for directories, so that a call about the table `..` would reach its
database.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote_plus

from lakewright.errors import InvalidInputError
from lakewright.spec import arguments
from lakewright.spec.identifier import MAIN_BRANCH, Identifier


def encoded(text: str) -> str:
    """Return a text as forms encode it: letters, digits and `.-_*` stay, a space becomes `+`, all else `%XX`.

    >>> encoded("a b/c~d*ü")
    'a+b%2Fc%7Ed*%C3%BC'
    """
    return quote_plus(text, safe="*").replace("~", "%7E")


def segment(kind: str, name: str) -> str:
    """Return a name as one segment of a path; `kind` says in errors what it names.

    >>> segment("table", "orders$branch_b")
    'orders%24branch_b'
    """
    if arguments.text(f"the name of a {kind}", name) in {".", ".."}:
        raise InvalidInputError(
            f"{name!r} cannot name a {kind} of a REST catalog: in a URL it means a directory", name=name, kind=kind
        )
    return encoded(name)


def object_name(identifier: Identifier) -> str:
    """Return the table with its branch, which is how a table is named in URLs and bodies; a system table is left out.

    >>> object_name(Identifier.from_string("d.t$branch_b$files")), object_name(Identifier.from_string("d.t$files"))
    ('t$branch_b', 't')
    """
    branch = identifier.get_branch_name()
    kept = None if branch == MAIN_BRANCH else branch
    return Identifier.create(identifier.get_database_name(), identifier.get_table_name(), kept).get_object_name()


def query_text(parameters: Mapping[str, str]) -> str:
    """Return parameters as the query of a URL, sorted by key, as signatures need them.

    >>> query_text({"pageToken": "a b", "maxResults": "2"})
    'maxResults=2&pageToken=a+b'
    """
    return "&".join(f"{encoded(key)}={encoded(parameters[key])}" for key in sorted(parameters))
