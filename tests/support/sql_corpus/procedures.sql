-- case: call_unknown
-- error: yes
CALL sys.no_such_thing(table => 't')

-- case: call_without_required_argument
-- from: log
-- error: yes
CALL sys.create_tag(tag => 'x')

-- case: call_unknown_argument
-- from: log
-- error: yes
CALL sys.create_tag(table => 't', tag => 'x', colour => 'red')

-- case: call_missing_table
-- error: yes
CALL sys.create_tag(table => 'nowhere', tag => 'x')

-- case: create_tag_named
-- from: log
-- compare: both
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
CALL sys.create_tag(table => '{db}.t', tag => 'one', snapshot => 1, time_retained => '2 d')

-- case: create_tag_positional
-- from: log
-- compare: both
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
CALL sys.create_tag('t', 'two', 2)

-- case: create_tag_latest
-- from: log
-- compare: both
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
CALL paimon.sys.create_tag(`table` => 't', `tag` => 'last')

-- case: create_tag_from_timestamp
-- from: log
-- columns: tagName, snapshot, commit_time, watermark
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
CALL sys.create_tag_from_timestamp(`table` => 't', `tag` => 'timed', `timestamp` => {millis t 2}, time_retained => '1 d')

-- case: create_tag_from_watermark
-- java: newer than 0.9.0
-- from: log
-- error: yes
CALL sys.create_tag_from_watermark(`table` => 't', `tag` => 'timed', `watermark` => 1724404318750)

-- case: call_rename_tag
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- columns: result
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["uno", 1]]
CALL sys.rename_tag(table => 't', tag => 'one', target_tag => 'uno')

-- case: call_replace_tag
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- columns: result
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["one", 2]]
CALL sys.replace_tag(table => 't', tag => 'one', snapshot => 2, time_retained => '1 d')

-- case: call_delete_tag
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- compare: both
-- then: SELECT count(*) AS n FROM `t$tags`
CALL sys.delete_tag(table => 't', tag => 'one')

-- case: call_delete_tags
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- start: CALL sys.create_tag(table => 't', tag => 'two', snapshot => 2)
-- compare: both
-- then: SELECT count(*) AS n FROM `t$tags`
CALL sys.delete_tag(table => 't', tag => 'one,two')

-- case: call_expire_tags
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- columns: expired_tags
-- rows: [["No expired tags."]]
CALL sys.expire_tags(table => 't', older_than => '2024-09-06 11:00:00')

-- case: call_trigger_tags
-- java: newer than 0.9.0
-- from: log
-- columns: result
-- rows: [[true]]
CALL sys.trigger_tag_automatic_creation(table => 't')

-- case: call_create_branch
-- from: log
-- compare: both
-- then: SELECT branch_name FROM `t$branches`
CALL sys.create_branch(table => 't', branch => 'side')

-- case: call_create_branch_from_tag
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- compare: both
-- then: SELECT * FROM `t$branch_side`
CALL sys.create_branch(table => 't', branch => 'side', tag => 'one')

-- case: call_create_branch_of_branch
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.create_branch(table => 't', branch => 'side')
-- then: SELECT branch_name FROM `t$branches`
-- rows: [["inner"], ["side"]]
CALL sys.create_branch(table => '{db}.t$branch_side', branch => 'inner')

-- case: call_delete_branch
-- from: log
-- start: CALL sys.create_branch(table => 't', branch => 'side')
-- compare: both
-- then: SELECT count(*) AS n FROM `t$branches`
CALL sys.delete_branch(table => 't', branch => 'side')

-- case: call_delete_branches
-- from: log
-- start: CALL sys.create_branch(table => 't', branch => 'side')
-- start: CALL sys.create_branch(table => 't', branch => 'other')
-- then: SELECT count(*) AS n FROM `t$branches`
CALL sys.delete_branch(table => 't', branch => 'side,other')

-- case: call_rename_branch
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.create_branch(table => 't', branch => 'side')
-- columns: result
-- then: SELECT branch_name FROM `t$branches`
-- rows: [["edge"]]
CALL sys.rename_branch(table => 't', from_branch => 'side', to_branch => 'edge')

-- case: call_fast_forward
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- start: CALL sys.create_branch(table => 't', branch => 'side', tag => 'one')
-- start: INSERT INTO `t$branch_side` VALUES (10, 'side')
-- compare: both
-- then: SELECT * FROM t
CALL sys.fast_forward(table => 't', branch => 'side')

-- case: call_merge_branch
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.create_branch(table => 't', branch => 'side')
-- error: yes
CALL sys.merge_branch(table => 't', source_branch => 'side')

-- case: call_rollback_version
-- from: log
-- compare: both
-- then: SELECT * FROM t
CALL sys.rollback(table => 't', version => '2')

-- case: call_rollback_number
-- from: log
-- compare: both
-- then: SELECT * FROM t
CALL sys.rollback(table => '{db}.t', version => 1)

-- case: call_rollback_tag_as_version
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- compare: both
-- then: SELECT * FROM t
CALL sys.rollback(table => 't', version => 'one')

-- case: call_rollback_snapshot
-- java: newer than 0.9.0
-- from: log
-- columns: result
-- then: SELECT * FROM t
-- rows: [[1, "a"], [2, "b"]]
CALL sys.rollback(table => 't', snapshot => 2)

-- case: call_rollback_tag
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)
-- columns: result
-- then: SELECT * FROM t
-- rows: [[1, "a"]]
CALL sys.rollback(table => 't', tag => 'one')

-- case: call_rollback_missing
-- from: log
-- error: yes
CALL sys.rollback(table => 't', version => 'never')

-- case: call_rollback_to_timestamp
-- java: newer than 0.9.0
-- from: log
-- columns: result
-- compare: both
-- then: SELECT * FROM t
-- result: [["Success roll back to snapshot: 2 ."]]
-- rows: [[1, "a"], [2, "b"]]
CALL sys.rollback_to_timestamp(table => 't', timestamp => {millis t 2})

-- case: call_rollback_to_watermark
-- java: newer than 0.9.0
-- from: log
-- error: yes
CALL sys.rollback_to_watermark(table => 't', watermark => 1730292023000)

-- case: call_compact
-- from: history
-- compare: both
-- then: SELECT * FROM t
CALL sys.compact(table => 't')

-- case: call_compact_partitions
-- java: 0.9.0 reads the date as arithmetic
-- from: hours
-- compare: both
-- then: SELECT * FROM t
-- rows: [[1, "pen", "2026-03-01", 8], [2, "ink", "2026-03-01", 9], [3, "pad", "2026-03-02", 8]]
-- result: [[true]]
CALL sys.compact(table => 't', partitions => 'dt=2026-03-01,hh=8;dt=2026-03-02,hh=8')

-- case: call_compact_where
-- from: hours
-- compare: both
-- then: SELECT * FROM t
CALL sys.compact(table => 't', where => "dt > '2026-03-01' and hh < 20")

-- case: call_compact_order
-- from: log
-- compare: both
-- then: SELECT * FROM t
CALL sys.compact(table => 't', order_strategy => 'order', order_by => 'v,k')

-- case: call_compact_zorder
-- from: log
-- compare: both
-- then: SELECT * FROM t
CALL sys.compact(table => 't', order_strategy => 'zorder', order_by => 'k,v')

-- case: call_compact_hilbert
-- java: the jar lacks a class for it
-- from: log
-- compare: both
-- then: SELECT * FROM t
-- rows: [[1, "a"], [2, "b"], [3, "c"]]
CALL sys.compact(table => 't', order_strategy => 'hilbert', order_by => 'k')

-- case: call_compact_options
-- from: log
-- compare: both
-- then: SELECT * FROM t
CALL sys.compact(table => 't', options => 'target-file-size=64 mb,compaction.min.file-num=2')

-- case: call_compact_minor
-- java: newer than 0.9.0
-- from: log
-- columns: result
-- then: SELECT * FROM t
-- rows: [[1, "a"], [2, "b"], [3, "c"]]
CALL sys.compact(table => 't', compact_strategy => 'minor')

-- case: call_compact_idle
-- from: hours
-- compare: both
-- then: SELECT * FROM t
CALL sys.compact(table => 't', partition_idle_time => '60s')

-- case: call_compact_both_filters
-- from: hours
-- error: yes
CALL sys.compact(table => 't', partitions => 'hh=8', where => 'hh = 8')

-- case: call_compact_database
-- java: newer than 0.9.0
-- from: log
-- columns: result
-- rows: [["Compact database finished. Success: 1, Failed: 0"]]
CALL sys.compact_database(including_databases => '{db}', including_tables => '{db}[.]t', options => 'target-file-size=64 mb')

-- case: call_compact_manifest
-- java: newer than 0.9.0
-- from: log
-- columns: result
-- rows: [[true]]
CALL sys.compact_manifest(`table` => 't')

-- case: call_rescale
-- java: newer than 0.9.0
-- from: keyed
-- columns: result
-- then: SELECT * FROM t
-- rows: [[1, 10, "c1"], [2, 20, "c2"], [3, 30, "c3"], [5, 50, "c5"]]
CALL sys.rescale(table => 't', bucket_num => 4)

-- case: call_rescale_partition
-- java: newer than 0.9.0
-- from: hours
-- columns: result
-- then: SELECT id FROM t
-- rows: [[1], [2], [3]]
CALL sys.rescale(table => '{db}.t', bucket_num => 2, partitions => 'dt=2026-03-01,hh=8')

-- case: call_expire_snapshots
-- from: log
-- compare: both
-- then: SELECT snapshot_id FROM `t$snapshots`
CALL sys.expire_snapshots(table => 't', retain_max => 1)

-- case: call_expire_snapshots_older
-- java: 0.9.0 wants a TIMESTAMP, later versions a text
-- from: log
-- compare: both
-- then: SELECT snapshot_id FROM `t$snapshots`
-- result: [[1]]
-- rows: [[2], [3]]
CALL sys.expire_snapshots(table => 't', retain_min => 1, older_than => '{time t 3}', max_deletes => 1)

-- case: call_expire_snapshots_options
-- java: newer than 0.9.0
-- from: log
-- columns: deleted_snapshots_count
-- rows: [[1]]
CALL sys.expire_snapshots(table => 't', retain_max => 1, options => 'snapshot.expire.limit=1')

-- case: call_expire_partitions
-- from: hours
-- compare: both
-- then: SELECT * FROM t
CALL sys.expire_partitions(table => 't', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$dt')

-- case: call_expire_no_partitions
-- from: hours
-- compare: both
-- then: SELECT * FROM t
CALL sys.expire_partitions(table => 't', expiration_time => '9000 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$dt', expire_strategy => 'values-time')

-- case: call_expire_partitions_options
-- java: newer than 0.9.0
-- from: hours
-- columns: expired_partitions
-- skip-rows: yes
-- then: SELECT count(*) AS n FROM t
-- rows: [[2]]
CALL sys.expire_partitions(table => 't', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$dt', max_expires => 1)

-- case: call_remove_orphans
-- from: log
-- ours: the columns of 1.x, 0.9.0 lists the files
-- skip-rows: yes
-- then: SELECT * FROM t
CALL sys.remove_orphan_files(table => '{db}.t', older_than => '2023-10-31 12:00:00')

-- case: call_remove_orphans_dry
-- from: log
-- ours: the columns of 1.x, 0.9.0 lists the files
-- skip-rows: yes
-- then: SELECT * FROM t
CALL sys.remove_orphan_files(table => '{db}.t', older_than => '2023-10-31 12:00:00', dry_run => true)

-- case: call_remove_orphans_of_database
-- java: newer than 0.9.0
-- from: log
-- columns: deletedFileCount, deletedFileTotalLenInBytes
-- rows: [[0, 0]]
CALL sys.remove_orphan_files(table => '{db}.*', older_than => '2023-10-31 12:00:00', dry_run => true, parallelism => 2, mode => 'local')

-- case: call_remove_unexisting_files
-- java: newer than 0.9.0
-- from: log
-- columns: fileName
-- rows: []
CALL sys.remove_unexisting_files(table => 't', dry_run => true)

-- case: call_purge_files
-- java: newer than 0.9.0
-- from: log
-- columns: result
-- result: [["Success"]]
-- compare: both
-- then: SELECT count(*) AS n FROM t
-- rows: [[0]]
CALL sys.purge_files(table => 't')

-- case: call_repair
-- from: log
-- error: yes
CALL sys.repair('{db}.t')

-- case: call_reset_consumer
-- from: log
-- compare: both
-- then: SELECT consumer_id, next_snapshot_id FROM `t$consumers`
CALL sys.reset_consumer(table => 't', consumerId => 'reader', nextSnapshotId => 2)

-- case: call_delete_consumer
-- from: log
-- start: CALL sys.reset_consumer(table => 't', consumerId => 'reader', nextSnapshotId => 2)
-- compare: both
-- then: SELECT consumer_id, next_snapshot_id FROM `t$consumers`
CALL sys.reset_consumer(table => 't', consumerId => 'reader')

-- case: call_clear_consumers
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.reset_consumer(table => 't', consumerId => 'reader', nextSnapshotId => 2)
-- columns: result
-- then: SELECT count(*) AS n FROM `t$consumers`
-- rows: [[0]]
CALL sys.clear_consumers(table => 't')

-- case: call_clear_some_consumers
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.reset_consumer(table => 't', consumerId => 'reader1', nextSnapshotId => 2)
-- start: CALL sys.reset_consumer(table => 't', consumerId => 'reader2', nextSnapshotId => 2)
-- columns: result
-- then: SELECT consumer_id FROM `t$consumers`
-- rows: [["reader2"]]
CALL sys.clear_consumers(table => 't', includingConsumers => 'reader.*', excludingConsumers => 'reader2')

-- case: call_mark_partition_done
-- from: hours
-- compare: both
-- then: SELECT count(*) AS n FROM t
CALL sys.mark_partition_done(table => 't', partitions => 'dt=2026-03-01,hh=8')

-- case: call_mark_partitions_done
-- from: hours
-- compare: both
-- then: SELECT count(*) AS n FROM t
CALL sys.mark_partition_done(table => '{db}.t', partitions => 'dt=2026-03-01,hh=8;dt=2026-03-02,hh=8')

-- case: call_rewrite_file_index
-- java: newer than 0.9.0
-- start: CREATE TABLE t (a INT, b STRING)
-- start: INSERT INTO t VALUES (1, 'x')
-- start: ALTER TABLE t SET TBLPROPERTIES ('file-index.bloom-filter.columns' = 'b')
-- columns: written_partitions, written_indexes
-- rows: [[1, 1]]
CALL sys.rewrite_file_index(table => 't')

-- case: call_create_global_index
-- java: newer than 0.9.0
-- from: log
-- error: yes
CALL sys.create_global_index(table => 't', index_column => 'k', index_type => 'btree')

-- case: call_drop_global_index
-- java: newer than 0.9.0
-- from: log
-- error: yes
CALL sys.drop_global_index(table => 't', index_column => 'k', index_type => 'btree')

-- case: call_copy
-- java: newer than 0.9.0
-- from: log
-- columns: result
-- then: SELECT * FROM twin
-- rows: [[1, "a"], [2, "b"], [3, "c"]]
CALL sys.copy(source_table => 't', target_table => 'twin')

-- case: call_migrate_table
-- java: needs a Hive metastore
-- error: yes
CALL sys.migrate_table(source_type => 'hive', table => '{db}.h', options => 'file.format=parquet', options_map => map('k1', 'v1'), parallelism => 2)

-- case: call_migrate_database
-- java: needs a Hive metastore
-- error: yes
CALL sys.migrate_database(source_type => 'hive', database => 'h', options => 'file.format=parquet')

-- case: call_migrate_file
-- java: needs a Hive metastore
-- error: yes
CALL sys.migrate_file(source_type => 'hive', source_table => '{db}.h', target_table => '{db}.t', delete_origin => false)

-- case: call_alter_view_dialect
-- java: newer than 0.9.0
-- error: yes
CALL sys.alter_view_dialect('{db}.kept', 'add', 'spark', 'SELECT 1')

-- case: call_create_function
-- java: newer than 0.9.0
-- error: yes
CALL sys.create_function(`function` => '{db}.area', `inputParams` => '[{"id": 0, "name": "w", "type": "INT"}]', `returnParams` => '[{"id": 0, "name": "a", "type": "BIGINT"}]', `deterministic` => true)

-- case: call_alter_function
-- java: newer than 0.9.0
-- error: yes
CALL sys.alter_function(`function` => '{db}.area', `change` => '{"action": "dropDefinition", "name": "spark"}')

-- case: call_drop_function
-- java: newer than 0.9.0
-- error: yes
CALL sys.drop_function(`function` => '{db}.area')

-- case: call_expire_changelogs
-- java: newer than 0.9.0
-- from: log
-- rows: [[0]]
CALL sys.expire_changelogs(table => 't', retain_max => 1)

-- case: call_repair_earliest_snapshot
-- java: newer than 0.9.0
-- from: log
-- error: yes
CALL sys.repair_earliest_snapshot(table => 't', snapshot_id => 1)

-- case: call_compact_chain_table
-- java: newer than 0.9.0
-- from: log
-- error: yes
CALL sys.compact_chain_table(table => 't', partition => 'dt="20250810"')

-- case: call_materialize_vectors
-- java: newer than 0.9.0
-- from: log
-- error: yes
CALL sys.materialize_deletion_vectors(table => 't')
