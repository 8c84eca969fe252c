"""Each line of docs/compatibility.md is proven by tests of interoperability, which are listed here."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
VERDICTS = {"both", "reads ours", "same", "same format", "not tested"}
UNPROVEN = {"not tested", "same format"}
PROOFS = {
    "append tables": [
        "test_java_appends_to_our_table_and_we_to_its",
        "test_we_read_what_peers_write",
        "test_mixed_writers_in_turn_agree",
    ],
    "all scalar types; Parquet, ORC, Avro": [
        "test_java_reads_every_type",
        "test_we_read_what_java_writes",
        "test_peers_read_our_scalars",
    ],
    "nested types": [
        "test_java_reads_every_type",
        "test_a_table_of_nested_types_is_sound",
        "test_peers_read_our_nested_values",
    ],
    "partitions by any scalar type": [
        "test_java_reads_tables_partitioned_and_bucketed_by_any_scalar",
        "test_we_read_java_s_partitions_of_any_scalar",
        "test_peers_read_tables_partitioned_by_any_scalar",
    ],
    "primary keys, fixed buckets, upserts": [
        "test_both_write_compact_and_read_the_same",
        "test_all_write_the_same_keys_in_turn",
    ],
    "bucket functions `default`, `mod`, `hive`": ["test_peers_find_rows_in_the_buckets_we_chose"],
    "dynamic buckets": ["test_one_dynamic_table_is_grown_in_turn"],
    "keys that move between partitions": ["test_keys_move_between_partitions_by_us_and_by_rust"],
    "merge engines": [
        "test_both_write_compact_and_read_the_same",
        "test_an_engine_merges_the_same_rows_for_everybody",
        "test_first_rows_are_the_same_for_everybody",
    ],
    "tables compacted by lakewright": [
        "test_both_write_compact_and_read_the_same",
        "test_peers_read_what_we_compacted",
        "test_peers_read_append_tables_that_we_compacted",
    ],
    "deletion vectors": [
        "test_java_sees_what_we_deleted_and_updated",
        "test_peers_see_what_we_deleted_and_updated",
        "test_what_a_peer_deleted_is_gone_and_can_be_deleted_further",
    ],
    "row ids, column files": [
        "test_java_reads_rows_changed_by_their_ids",
        "test_peers_and_we_change_one_table_in_turn",
    ],
    "changelogs": ["test_java_reads_our_changelog", "test_rust_reads_the_changelog_of_our_compactions"],
    "schema changes, overwrites, time travel": [
        "test_java_reads_history_overwrites_and_schema_changes",
        "test_peers_read_after_our_overwrites_and_schema_changes",
    ],
    "branches, rollback": [
        "test_java_reads_and_continues_a_changed_history",
        "test_pypaimon_reads_our_branches_and_rollbacks",
        "test_we_read_pypaimons_branches_and_rollbacks",
    ],
    "expiry of snapshots, tags and partitions": [
        "test_snapshots_expire_after_a_commit_as_in_java",
        "test_tags_expire_as_in_java",
        "test_partitions_expire_as_in_java",
    ],
    "system tables": ["test_rows_are_java_s", "test_system_tables_agree"],
    "external paths": ["test_java_and_we_share_external_paths", "test_pypaimon_and_we_share_external_paths"],
    "files moved into a table": ["test_java_reads_moved_files", "test_pypaimon_reads_moved_files"],
    "commit messages": ["test_messages_travel_between_us_and_the_rust_peer"],
    "SQL catalogs": ["test_each_reads_and_writes_the_tables_of_the_other"],
    "REST catalogs": ["test_a_table_of_each_is_written_by_all_in_turn"],
}


def _features() -> dict[str, list[str]]:
    """Return the verdicts of each line for Java, pypaimon and pypaimon-rust."""
    table = PAGE.split("| feature |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table]
    return {row[0]: row[1:] for row in rows}


def _tests(*folders: str) -> set[str]:
    files = (file for folder in folders for file in (ROOT / "tests" / "interop" / folder).glob("test_*.py"))
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}


def test_each_line_of_the_page_is_proven_by_tests_that_exist() -> None:
    java, peers = _tests("java", "rest"), _tests(".", "rest")
    features = _features()
    wrong = [f"{name}: on the page or in PROOFS alone" for name in features.keys() ^ PROOFS.keys()]
    for name in features.keys() & PROOFS.keys():
        of_java, *of_peers = features[name]
        tests = set(PROOFS[name])
        wrong += [f"{name}: there is no test {test}" for test in sorted(tests - java - peers)]
        wrong += [f"{name}: unknown verdict {verdict!r}" for verdict in {of_java, *of_peers} - VERDICTS]
        if of_java not in UNPROVEN and not tests & java:
            wrong.append(f"{name}: no test with Java")
        if set(of_peers) - UNPROVEN and not tests & peers:
            wrong.append(f"{name}: no test with the Python implementations")
    assert wrong == []


def test_the_page_names_the_versions_that_the_tests_pin() -> None:
    pinned = (ROOT / "tests" / "interop" / "requirements-peers.txt").read_text()
    for name in ("pypaimon", "pypaimon-rust"):
        version = re.search(rf"^{name}==(.*)$", pinned, re.MULTILINE)
        assert version is not None
        assert f"{name} {version[1]}" in PAGE
    java = re.findall(r"Java Paimon ([\d.]+\d) \(REST servers: ([\d.]+\d) too\)", PAGE)[0]
    builds = [ROOT / "Makefile", *(ROOT / "scripts").glob("*")]
    text = "".join(path.read_text() for path in builds if path.is_file())
    assert [version for version in java if version not in text] == []
