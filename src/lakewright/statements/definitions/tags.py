"""Tags of a table: CREATE, REPLACE, RENAME and DELETE TAG, and SHOW TAGS."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from lakewright.errors import NotFoundError, TagAlreadyExistException, TagNotExistException
from lakewright.spec.arguments import did_you_mean
from lakewright.statements.definitions.alter import changeable
from lakewright.statements.definitions.placing import NOTHING, placing, shown
from lakewright.statements.model import Command
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Fragment, Name
from lakewright.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class SetTag(Command):
    """CREATE [OR REPLACE] TAG [IF NOT EXISTS] | REPLACE TAG tag [AS OF VERSION snapshot] [RETAIN time]."""

    name: Name
    tag: str
    place: Fragment
    snapshot: int | None = None
    retained: timedelta | None = None
    creates: bool = True
    replaces: bool = False
    if_not_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Let the tag name a snapshot."""
        _, _, table = changeable(session, self.name)
        exists = self.tag in table.list_tags()
        if exists and not self.replaces:
            if self.if_not_exists:
                return NOTHING
            message = f"the tag {self.tag!r} of {table.name} already exists; write CREATE TAG IF NOT EXISTS or"
            raise self.place.error(f"{message} CREATE OR REPLACE TAG", kind=TagAlreadyExistException, tag=self.tag)
        if not exists and not self.creates:
            raise _no_tag(table, self.tag, self.place)
        with placing(self.place):
            if exists:
                table.replace_tag(self.tag, self.snapshot, self.retained)
            else:
                table.create_tag(self.tag, self.snapshot, time_retained=self.retained)
        return NOTHING


@dataclass(frozen=True, slots=True)
class DeleteTags(Command):
    """DELETE TAG [IF EXISTS] tag; several have commas between them."""

    name: Name
    tags: str
    place: Fragment
    if_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Delete the tags; if one of them does not exist, none is."""
        _, _, table = changeable(session, self.name)
        known = table.list_tags()
        tags = [self.tags] if self.tags in known else [tag.strip() for tag in self.tags.split(",")]
        missing = [tag for tag in tags if tag not in known]
        if missing and not self.if_exists:
            raise _no_tag(table, missing[0], self.place)
        with placing(self.place):
            for tag in tags:
                if tag in known:
                    table.delete_tag(tag)
        return NOTHING


@dataclass(frozen=True, slots=True)
class RenameTag(Command):
    """RENAME TAG tag TO name."""

    name: Name
    tag: str
    new_tag: str
    place: Fragment

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Give the tag another name."""
        _, _, table = changeable(session, self.name)
        if self.tag not in table.list_tags():
            raise _no_tag(table, self.tag, self.place)
        with placing(self.place):
            table.rename_tag(self.tag, self.new_tag)
        return NOTHING


@dataclass(frozen=True, slots=True)
class ShowTags(Command):
    """SHOW TAGS name, and SHOW BRANCHES name."""

    name: Name
    branches: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names, in order."""
        _, _, table = changeable(session, self.name)
        names = table.list_branches() if self.branches else table.list_tags()
        return shown({"branch" if self.branches else "tag": False}, [(name,) for name in sorted(names)])


def _no_tag(table: FileStoreTable, tag: str, place: Fragment) -> NotFoundError:
    hint = did_you_mean(tag, table.list_tags())
    return place.error(f"{table.name} has no tag {tag!r}; {hint}", kind=TagNotExistException, tag=tag)
