-- case: show_databases_like
-- on: shop
SHOW DATABASES LIKE '{db}*'

-- case: show_namespaces
-- on: shop
SHOW NAMESPACES LIKE '{db}'

-- case: show_tables
-- on: shop
SHOW TABLES

-- case: show_tables_in
-- on: shop
SHOW TABLES IN {db}

-- case: show_tables_like
-- on: shop
SHOW TABLES LIKE 'cust*'

-- case: show_tables_of_catalog
-- on: shop
SHOW TABLES FROM paimon.{db} LIKE 'o*|x*'

-- case: show_table_extended
-- java: 0.9.0 refuses it for this catalog
-- on: shop
-- columns: namespace, tableName, isTemporary, information
-- skip-rows: yes
SHOW TABLE EXTENDED IN {db} LIKE 'cust*'

-- case: show_table_extended_partition
-- java: 0.9.0 refuses it for this catalog
-- on: shop
-- columns: namespace, tableName, isTemporary, information
-- skip-rows: yes
SHOW TABLE EXTENDED IN {db} LIKE 'orders' PARTITION (day = '2026-01-01')

-- case: show_columns
-- on: shop
SHOW COLUMNS FROM orders

-- case: show_columns_in_database
-- on: shop
SHOW COLUMNS IN orders IN {db}

-- case: show_partitions
-- on: shop
SHOW PARTITIONS orders

-- case: show_partitions_of_two_keys
-- on: hours
SHOW PARTITIONS t

-- case: show_some_partitions
-- on: hours
SHOW PARTITIONS t PARTITION (dt = '2026-03-01')

-- case: show_one_partition
-- on: hours
SHOW PARTITIONS t PARTITION (dt = '2026-03-01', hh = 9)

-- case: show_partitions_of_plain_table
-- on: plain
-- error: yes
SHOW PARTITIONS t

-- case: show_create_table
-- on: hours
-- ours: no 'path' among the properties: it is not stored in the schema
-- skip-rows: yes
SHOW CREATE TABLE t

-- case: show_properties
-- on: shop
-- ours: no 'path' among the properties: it is not stored in the schema
-- skip-rows: yes
SHOW TBLPROPERTIES orders

-- case: show_one_property
-- on: shop
SHOW TBLPROPERTIES orders ('bucket')

-- case: show_missing_property
-- on: shop
SHOW TBLPROPERTIES orders ('nothing')

-- case: show_views
-- java: 0.9.0 has no views in this catalog
-- on: shop
-- columns: namespace, viewName, isTemporary
-- rows: []
SHOW VIEWS

-- case: show_views_like
-- java: 0.9.0 has no views in this catalog
-- on: shop
-- columns: namespace, viewName, isTemporary
-- rows: []
SHOW VIEWS LIKE 'test*'

-- case: show_current_namespace
-- on: shop
SHOW CURRENT NAMESPACE

-- case: show_catalogs
-- on: shop
-- skip-rows: yes
SHOW CATALOGS

-- case: describe
-- on: shop
DESCRIBE orders

-- case: describe_table
-- on: nested
DESCRIBE TABLE t

-- case: desc
-- on: shop
DESC customers

-- case: describe_extended
-- on: shop
-- ours: the details name what we store
-- skip-rows: yes
DESCRIBE EXTENDED orders

-- case: describe_table_extended
-- on: shop
-- ours: the details name what we store
-- skip-rows: yes
DESCRIBE TABLE EXTENDED customers

-- case: describe_formatted
-- on: shop
-- ours: the details name what we store
-- skip-rows: yes
DESCRIBE FORMATTED customers

-- case: describe_column
-- on: shop
DESCRIBE orders amount

-- case: describe_database
-- on: shop
DESCRIBE DATABASE {db}

-- case: describe_database_extended
-- on: shop
-- skip-rows: yes
DESCRIBE DATABASE EXTENDED {db}

-- case: describe_query
-- on: shop
DESCRIBE QUERY SELECT id, day FROM orders

-- case: describe_system_table
-- on: shop
-- skip-rows: yes
DESCRIBE `orders$snapshots`

-- case: describe_missing_table
-- on: shop
-- error: yes
DESCRIBE nowhere

-- case: explain
-- on: shop
-- skip-rows: yes
EXPLAIN SELECT id FROM orders

-- case: analyze_table
-- from: log
-- then: SELECT mergedRecordCount FROM `t$statistics`
ANALYZE TABLE t COMPUTE STATISTICS

-- case: analyze_columns
-- from: log
-- then: SELECT mergedRecordCount FROM `t$statistics`
ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS k

-- case: analyze_all_columns
-- from: log
-- then: SELECT mergedRecordCount FROM `t$statistics`
ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS

-- case: refresh_table
-- on: log
-- skip-rows: yes
REFRESH TABLE t

-- case: repair_table
-- on: log
-- error: yes
MSCK REPAIR TABLE t

-- case: set_key
-- on: log
SET spark.sql.shuffle.partitions=3

-- case: set_quoted_key
-- on: log
SET `spark.paimon.file.block-size` = `256M`

-- case: set_dashed_key
-- java: Spark 3.5 wants backquotes around keys with a dash
-- on: log
-- rows: [["spark.paimon.scan.snapshot-id", "1"]]
SET spark.paimon.scan.snapshot-id=1

-- case: set_shows_value
-- on: log
-- start: SET `spark.paimon.scan.snapshot-id` = 1
SET `spark.paimon.scan.snapshot-id`

-- case: set_scan_snapshot
-- on: log
-- start: SET `spark.paimon.scan.snapshot-id` = 1
SELECT * FROM t

-- case: set_scan_tag
-- on: shop
-- start: SET `spark.paimon.scan.tag-name` = opening
SELECT id, amount FROM orders

-- case: reset_key
-- on: log
-- start: SET `spark.paimon.scan.snapshot-id` = 1
-- start: RESET `spark.paimon.scan.snapshot-id`
SELECT * FROM t

-- case: reset_all
-- on: log
-- start: SET `spark.paimon.scan.snapshot-id` = 1
-- start: RESET
SELECT count(*) AS n FROM t

-- case: set_for_one_table
-- java: newer than 0.9.0
-- on: shop
-- start: SET `spark.paimon.*.{db}.orders.scan.snapshot-id` = 1
-- rows: [[3, 4]]
SELECT (SELECT count(*) FROM orders) AS o, (SELECT count(*) FROM customers) AS c

-- case: set_for_every_catalog_and_database
-- java: newer than 0.9.0
-- on: shop
-- start: SET `spark.paimon.*.*.orders.scan.snapshot-id` = 1
-- rows: [[3]]
SELECT count(*) AS n FROM {db}.orders

-- case: set_for_all_and_one
-- java: newer than 0.9.0
-- on: shop
-- start: SET `spark.paimon.scan.snapshot-id` = 1
-- start: SET `spark.paimon.paimon.{db}.orders.scan.snapshot-id` = 2
-- rows: [[4, 4]]
SELECT (SELECT count(*) FROM orders) AS o, (SELECT count(*) FROM customers) AS c

-- case: set_incremental_between
-- on: log
-- start: SET `spark.paimon.incremental-between` = `1,3`
SELECT * FROM t

-- case: hint_after_table
-- java: Spark 3.5's parser takes no such hint
-- on: shop
-- rows: [[1], [2], [3]]
SELECT id FROM orders /*+ OPTIONS('scan.tag-name' = 'opening') */

-- case: hint_after_select
-- java: Spark 3.5's parser takes no such hint
-- on: shop
-- rows: [[3]]
SELECT /*+ OPTIONS('scan.snapshot-id' = '1') */ count(*) AS n FROM orders

-- case: hint_of_spark
-- on: shop
SELECT /*+ BROADCAST(c) */ o.id FROM orders o JOIN customers c ON o.id = c.cust
