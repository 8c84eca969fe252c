-- case: version_as_of_id
-- on: shop
SELECT * FROM orders VERSION AS OF 1

-- case: version_as_of_tag
-- on: shop
SELECT * FROM orders VERSION AS OF 'opening'

-- case: version_as_of_id_as_text
-- on: shop
SELECT * FROM orders VERSION AS OF '2'

-- case: for_system_version
-- on: shop
SELECT count(*) AS n FROM orders FOR SYSTEM_VERSION AS OF 1

-- case: for_version
-- on: shop
SELECT count(*) AS n FROM orders FOR VERSION AS OF 2

-- case: version_with_alias
-- on: shop
SELECT o.id FROM orders VERSION AS OF 1 AS o WHERE o.amount > 8

-- case: version_joins_version
-- on: shop
SELECT n.id, o.amount AS was, n.amount AS now FROM orders VERSION AS OF 1 o JOIN orders VERSION AS OF 3 n ON o.id = n.id AND o.day = n.day

-- case: version_in_subquery
-- on: shop
SELECT id FROM orders WHERE id NOT IN (SELECT id FROM orders VERSION AS OF 1)

-- case: version_missing
-- on: shop
-- error: yes
SELECT * FROM orders VERSION AS OF 99

-- case: version_missing_tag
-- on: shop
-- error: yes
SELECT * FROM orders VERSION AS OF 'never'

-- case: tag_named_like_a_number
-- from: log
-- start: CALL sys.create_tag(table => 't', tag => '1', snapshot => 2)
SELECT * FROM t VERSION AS OF '1'

-- case: version_as_of_watermark
-- on: shop
-- error: yes
SELECT * FROM orders VERSION AS OF 'watermark-1678883047356'

-- case: timestamp_as_of
-- on: shop
SELECT * FROM orders TIMESTAMP AS OF '{time orders 2}'

-- case: timestamp_as_of_seconds
-- on: shop
SELECT count(*) AS n FROM orders TIMESTAMP AS OF {seconds orders 3}

-- case: timestamp_as_of_expression
-- on: shop
SELECT count(*) AS n FROM orders TIMESTAMP AS OF CAST('{time orders 1}' AS TIMESTAMP)

-- case: timestamp_before_all
-- java: 0.9.0 reads the earliest snapshot, later versions refuse
-- error: yes
-- on: shop
SELECT count(*) AS n FROM orders TIMESTAMP AS OF '1999-01-01 00:00:00'

-- case: for_system_time
-- on: shop
SELECT count(*) AS n FROM orders FOR SYSTEM_TIME AS OF '{time orders 1}'

-- case: incremental_ids
-- on: shop
SELECT * FROM paimon_incremental_query('orders', 1, 2)

-- case: incremental_ids_as_text
-- on: shop
SELECT id, note FROM paimon_incremental_query('{db}.orders', '1', '3')

-- case: incremental_tags
-- on: shop
SELECT * FROM paimon_incremental_query('orders', 'opening', 'later')

-- case: incremental_append
-- on: log
SELECT * FROM paimon_incremental_query('t', 1, 3) WHERE k > 2

-- case: incremental_changelog
-- on: changes
SELECT * FROM paimon_incremental_query('t', 1, 2)

-- case: incremental_drops_deletes
-- on: history
SELECT * FROM paimon_incremental_query('t', 2, 4)

-- case: incremental_between_timestamps
-- java: newer than 0.9.0
-- on: log
-- rows: [[2, "b"], [3, "c"]]
SELECT * FROM paimon_incremental_between_timestamp('t', '{millis t 1}', '{millis t 3}')

-- case: incremental_between_times
-- java: newer than 0.9.0
-- on: log
-- rows: [[2, "b"]]
SELECT * FROM paimon_incremental_between_timestamp('t', '{time t 1}', '{time t 2}')

-- case: incremental_to_auto_tag
-- java: newer than 0.9.0
-- on: log
-- rows: []
SELECT * FROM paimon_incremental_to_auto_tag('t', '2026-01-01')

-- case: incremental_join
-- on: shop
SELECT i.id, c.name FROM paimon_incremental_query('orders', 1, 3) i JOIN customers c ON i.id = c.cust

-- case: incremental_unknown_table
-- on: shop
-- error: yes
SELECT * FROM paimon_incremental_query('nowhere', 1, 2)

-- case: snapshots
-- on: shop
SELECT snapshot_id, schema_id, commit_kind, total_record_count, delta_record_count FROM `orders$snapshots`

-- case: schemas
-- on: shop
SELECT schema_id, partition_keys, primary_keys, comment FROM `orders$schemas`

-- case: options
-- on: shop
SELECT key, value FROM `orders$options` WHERE key = 'bucket'

-- case: audit_log
-- ours: rows that were deleted are not shown
-- skip-rows: yes
-- on: history
SELECT rowkind, k, v FROM `t$audit_log`

-- case: audit_log_incremental
-- on: history
SELECT rowkind, k, v FROM paimon_incremental_query('`t$audit_log`', 2, 4)

-- case: binlog
-- refused: $binlog
-- java: newer than 0.9.0
-- on: changes
-- rows: [[1], [2], [3]]
SELECT k[0] AS k FROM `t$binlog`

-- case: files
-- ours: partitions are written as 1.x writes them
-- skip-rows: yes
-- on: log
SELECT partition, bucket, file_format, schema_id, level, record_count FROM `t$files`

-- case: files_of_a_snapshot
-- on: log
SELECT count(*) AS n FROM `t$files` VERSION AS OF 2

-- case: tags_table
-- on: shop
SELECT tag_name, snapshot_id, record_count FROM `orders$tags`

-- case: branches_table
-- on: shop
SELECT branch_name FROM `orders$branches`

-- case: consumers_table
-- from: log
-- start: CALL sys.reset_consumer(table => 't', consumerId => 'reader', nextSnapshotId => 2)
SELECT consumer_id, next_snapshot_id FROM `t$consumers`

-- case: partitions_table
-- ours: partitions are written as 1.x writes them
-- skip-rows: yes
-- on: shop
SELECT partition, record_count, file_count FROM `orders$partitions`

-- case: manifests_table
-- on: log
SELECT num_added_files, num_deleted_files, schema_id FROM `t$manifests`

-- case: buckets_table
-- java: newer than 0.9.0
-- on: log
-- rows: [[0, 3]]
SELECT bucket, file_count FROM `t$buckets`

-- case: aggregation_fields
-- start: CREATE TABLE t (k INT, n BIGINT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum')
SELECT field_name, field_type, function FROM `t$aggregation_fields`

-- case: statistics_table
-- from: log
-- start: ANALYZE TABLE t COMPUTE STATISTICS
SELECT mergedRecordCount FROM `t$statistics`

-- case: read_optimized
-- on: shop
SELECT count(*) <= 5 AS fewer FROM `orders$ro`

-- case: table_indexes
-- on: shop
-- java: newer than 0.9.0
-- rows: [[0]]
SELECT count(*) AS n FROM `orders$table_indexes`

-- case: row_tracking
-- start: CREATE TABLE t (a INT) TBLPROPERTIES ('row-tracking.enabled' = 'true')
-- start: INSERT INTO t VALUES (7), (8)
-- java: newer than 0.9.0
-- rows: [[7, 0], [8, 1]]
SELECT a, _ROW_ID AS id FROM `t$row_tracking`

-- case: all_table_options
-- refused: sys.all_table_options
-- on: shop
SELECT count(*) AS n FROM sys.all_table_options WHERE database_name = '{db}' AND key = 'bucket'

-- case: system_table_joins
-- on: shop
SELECT s.snapshot_id, t.tag_name FROM `orders$snapshots` s LEFT JOIN `orders$tags` t ON s.snapshot_id = t.snapshot_id

-- case: system_table_unknown
-- on: shop
-- error: yes
SELECT * FROM `orders$nothing`

-- case: branch_select
-- on: shop
SELECT * FROM `orders$branch_trial`

-- case: branch_insert
-- from: log
-- start: CALL sys.create_branch(table => 't', branch => 'side')
-- then: SELECT * FROM `t$branch_side`
INSERT INTO `t$branch_side` VALUES (10, 'side')

-- case: branch_insert_leaves_main
-- from: log
-- start: CALL sys.create_branch(table => 't', branch => 'side')
-- then: SELECT * FROM t
INSERT INTO `t$branch_side` VALUES (10, 'side')

-- case: branch_snapshots
-- on: shop
SELECT snapshot_id FROM `orders$branch_trial$snapshots`

-- case: create_tag_statement
-- java: newer than 0.9.0
-- from: log
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["mark-1", 3]]
ALTER TABLE t CREATE TAG `mark-1`

-- case: create_tag_if_not_exists
-- java: newer than 0.9.0
-- from: log
-- start: ALTER TABLE t CREATE TAG `mark-1` AS OF VERSION 1
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["mark-1", 1]]
ALTER TABLE t CREATE TAG IF NOT EXISTS `mark-1`

-- case: create_tag_twice
-- java: newer than 0.9.0
-- from: log
-- start: ALTER TABLE t CREATE TAG `mark-1`
-- error: yes
ALTER TABLE t CREATE TAG `mark-1`

-- case: create_tag_retain
-- java: newer than 0.9.0
-- from: log
-- then: SELECT tag_name, snapshot_id FROM `t$tags` WHERE time_retained IS NOT NULL
-- rows: [["mark-2", 3]]
ALTER TABLE t CREATE TAG `mark-2` RETAIN 6 DAYS

-- case: create_tag_version
-- java: newer than 0.9.0
-- from: log
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["mark-3", 1]]
ALTER TABLE t CREATE TAG `mark-3` AS OF VERSION 1

-- case: create_tag_version_retain
-- java: newer than 0.9.0
-- from: log
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["mark-4", 2]]
ALTER TABLE t CREATE TAG `mark-4` AS OF VERSION 2 RETAIN 36 HOURS

-- case: replace_tag_statement
-- java: newer than 0.9.0
-- from: log
-- start: ALTER TABLE t CREATE TAG `mark-4`
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["mark-4", 2]]
ALTER TABLE t REPLACE TAG `mark-4` AS OF VERSION 2 RETAIN 20 HOURS

-- case: replace_tag_missing
-- java: newer than 0.9.0
-- from: log
-- error: yes
ALTER TABLE t REPLACE TAG `mark-4` AS OF VERSION 2

-- case: create_or_replace_tag
-- java: newer than 0.9.0
-- from: log
-- start: ALTER TABLE t CREATE OR REPLACE TAG `mark-5`
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["mark-5", 2]]
ALTER TABLE t CREATE OR REPLACE TAG `mark-5` AS OF VERSION 2 RETAIN 20 HOURS

-- case: delete_tag_statement
-- java: newer than 0.9.0
-- from: log
-- start: ALTER TABLE t CREATE TAG `mark-1`
-- then: SELECT count(*) AS n FROM `t$tags`
-- rows: [[0]]
ALTER TABLE t DELETE TAG `mark-1`

-- case: delete_tag_if_exists
-- java: newer than 0.9.0
-- from: log
-- then: SELECT count(*) AS n FROM `t$tags`
-- rows: [[0]]
ALTER TABLE t DELETE TAG IF EXISTS `mark-1`

-- case: delete_several_tags
-- java: newer than 0.9.0
-- from: log
-- start: ALTER TABLE t CREATE TAG `mark-1` AS OF VERSION 1
-- start: ALTER TABLE t CREATE TAG `mark-2` AS OF VERSION 2
-- then: SELECT count(*) AS n FROM `t$tags`
-- rows: [[0]]
ALTER TABLE t DELETE TAG `mark-1,mark-2`

-- case: rename_tag_statement
-- java: newer than 0.9.0
-- from: log
-- start: ALTER TABLE t CREATE TAG `mark-1` AS OF VERSION 1
-- then: SELECT tag_name, snapshot_id FROM `t$tags`
-- rows: [["mark-9", 1]]
ALTER TABLE t RENAME TAG `mark-1` TO `mark-9`

-- case: show_tags
-- java: newer than 0.9.0
-- on: shop
-- columns: tag
-- rows: [["later"], ["opening"]]
SHOW TAGS orders

-- case: incremental_from_the_tag_before
-- java: newer than 0.9.0
-- from: log
-- start: CALL sys.create_tag('t', '2026-02-01', 1)
-- start: CALL sys.create_tag('t', '2026-02-02', 2)
-- rows: [[2, "b"]]
SELECT * FROM paimon_incremental_to_auto_tag('t', '2026-02-02')
