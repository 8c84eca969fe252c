"""The commands by name: what help says about each, and the module that has it. No module of a command is loaded here.

A new command is a module below this folder with a tuple `COMMANDS` (see `base/command.py`), and one line here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its name, its module below `lakewright.cli`, and what it does in a few words."""

    name: str
    module: str
    help: str


# In the order in which help shows them.
SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Read and write": (
        Entry("read", "data.read", "write rows of a table to the terminal or a file"),
        Entry("import", "data.imports", "write files or stdin into a table, in one commit"),
        Entry("write", "data.imports", "the same as import"),
        Entry("ingest", "data.ingest", "load files or tables into a table, in one commit"),
        Entry("sql", "shell.sql", "run SQL statements or a script, or open a prompt"),
        Entry("migrate", "keep.move", "make a table of data files without copying them"),
        Entry("copy", "keep.move", "copy a snapshot of a table to a new table"),
    ),
    "Look": (
        Entry("tables", "look.tables", "list the tables of a catalog"),
        Entry("describe", "look.tables", "show the columns, keys and options of a table"),
        Entry("snapshots", "look.tables", "list the snapshots of a table, newest first"),
        Entry("files", "look.facts", "list the data files of a table"),
        Entry("schemas", "look.facts", "list the schemas that a table has had"),
        Entry("partitions", "look.facts", "list the partitions of a table with their sizes"),
        Entry("explain", "data.read", "show what a read would do, without doing it"),
        Entry("diff", "look.diff", "show the rows that changed between two snapshots"),
        Entry("report", "look.report", "draw a table: one page with its history, files and what to do"),
        Entry("verify", "look.report", "prove that a table's files hold what its metadata says"),
        Entry("doctor", "look.doctor", "check this environment, a storage and Spark, and say what to do"),
        Entry("analyze", "keep.upkeep", "count rows and values, for planners of queries"),
    ),
    "Make and change": (
        Entry("db", "objects.db", "list, create, describe, alter or drop databases"),
        Entry("table", "objects.table", "list, create, describe, alter, rename or drop tables"),
    ),
    "Change history": (
        Entry("branch", "objects.branch", "list, create, describe, rename or drop branches, or go on at one"),
        Entry("tag", "objects.tag", "list, create, describe, alter, rename or drop tags"),
        Entry("rollback", "objects.history", "bring a table back to a snapshot, tag or time"),
        Entry("consumer", "objects.history", "list, reset or forget readers of streams"),
    ),
    "Keep files in order": (
        Entry("compact", "keep.upkeep", "merge small files, and drop deleted rows"),
        Entry("compact-manifests", "keep.upkeep", "merge the manifests of a table into few full ones"),
        Entry("materialize-deletion-vectors", "keep.upkeep", "rewrite the files that have deleted rows, without these"),
        Entry("rescale", "keep.upkeep", "rewrite a table with another number of buckets"),
        Entry("remove-orphans", "keep.upkeep", "find files that nothing names; remove them if asked"),
        Entry("repair", "keep.move", "repair hints, lost tags and left-overs of branches"),
        Entry("remove-unexisting", "keep.move", "find data files that do not exist; remove them from the table"),
    ),
    "Let data grow old": (
        Entry("expire", "keep.lifecycle", "remove old snapshots and the files that only they name"),
        Entry("expire-changelogs", "keep.lifecycle", "remove changelogs of expired snapshots"),
        Entry("expire-partitions", "keep.lifecycle", "remove the rows of old partitions"),
        Entry("expire-tags", "keep.lifecycle", "delete the tags whose time is over"),
        Entry("create-tags", "keep.lifecycle", "create the tags that tag.automatic-creation asks for"),
        Entry("mark-done", "keep.lifecycle", "mark a partition as complete"),
        Entry("purge", "keep.lifecycle", "remove all rows of a table with their history and files"),
    ),
}

SECTIONS["Shell"] = (Entry("completion", "shell.words", "print what makes a shell complete commands"),)
ENTRIES = {entry.name: entry for entries in SECTIONS.values() for entry in entries}
