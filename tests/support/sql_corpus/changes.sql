-- case: insert_values
-- from: plain
-- then: SELECT * FROM t
INSERT INTO t VALUES (4, 'four', 4.5), (5, NULL, -1.0)

-- case: insert_table_keyword
-- from: plain
-- then: SELECT * FROM t
INSERT INTO TABLE t VALUES (4, 'four', 4.5)

-- case: insert_select
-- from: plain
-- then: SELECT * FROM t
INSERT INTO t SELECT a + 10, concat(b, '!'), c * 2 FROM t WHERE c IS NOT NULL

-- case: insert_with
-- from: plain
-- then: SELECT * FROM t
INSERT INTO t WITH big AS (SELECT max(a) AS a FROM t) SELECT a + 1, 'next', 0.0 FROM big

-- case: insert_table_statement
-- from: heap
-- then: SELECT * FROM target
INSERT INTO target TABLE source

-- case: insert_columns
-- from: plain
-- then: SELECT * FROM t
INSERT INTO t (c, a) VALUES (7.5, 7)

-- case: insert_all_columns_reordered
-- from: plain
-- then: SELECT * FROM t
INSERT INTO t (b, c, a) SELECT 'x', 1.0, 8

-- case: insert_by_name
-- from: plain
-- then: SELECT * FROM t
INSERT INTO t BY NAME SELECT 'eleven' AS b, 11 AS a, 1.1D AS c

-- case: insert_upserts
-- from: keyed
-- then: SELECT * FROM t
INSERT INTO t VALUES (2, 21, 'new'), (4, 40, 'c4')

-- case: insert_partition
-- from: parted
-- then: SELECT * FROM t
INSERT INTO t PARTITION (pt = 'p3') VALUES (3), (4)

-- case: insert_partition_of_two
-- from: hours
-- then: SELECT * FROM t
INSERT INTO t PARTITION (dt = '2026-03-05', hh = 7) SELECT 9, 'cup'

-- case: insert_partition_mixed
-- from: hours
-- then: SELECT * FROM t
INSERT INTO t PARTITION (dt = '2026-03-05', hh) SELECT 9, 'cup', 6

-- case: insert_partition_dynamic
-- from: parted
-- then: SELECT * FROM t
INSERT INTO t PARTITION (pt) SELECT 5, 'p5'

-- case: insert_partition_columns
-- from: hours
-- then: SELECT * FROM t
INSERT INTO t PARTITION (dt = '2026-03-05', hh = 7) (item, id) VALUES ('mug', 4)

-- case: insert_widens
-- start: CREATE TABLE t (a BIGINT, b DECIMAL(12, 3), c STRING)
-- then: SELECT * FROM t
INSERT INTO t VALUES (CAST(1 AS SMALLINT), 2, DATE '2026-05-06')

-- case: insert_string_into_int
-- java: 0.9.0 writes null for a text that is no number
-- from: plain
-- error: yes
INSERT INTO t VALUES ('four', 'four', 4.5)

-- case: insert_too_many_columns
-- from: plain
-- error: yes
INSERT INTO t VALUES (4, 'four', 4.5, 4)

-- case: insert_unknown_column
-- from: plain
-- error: yes
INSERT INTO t (a, nope) VALUES (4, 4)

-- case: insert_missing_table
-- error: yes
INSERT INTO nowhere VALUES (1)

-- case: insert_default_keyword
-- java: 0.9.0 knows no DEFAULT of columns
-- start: CREATE TABLE t (a INT, b STRING DEFAULT 'fresh')
-- then: SELECT * FROM t
-- rows: [[1, "fresh"]]
INSERT INTO t VALUES (1, DEFAULT)

-- case: insert_nested
-- from: nested
-- then: SELECT * FROM t
INSERT INTO t VALUES (2, named_struct('f1', CAST(NULL AS STRING), 'f2', 1), array(), map())

-- case: insert_types
-- start: CREATE TABLE t (b BOOLEAN, i8 TINYINT, i16 SMALLINT, f32 FLOAT, num DECIMAL(18, 4), bin BINARY, d DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, c CHAR(4), vc VARCHAR(9))
-- then: SELECT * FROM t
INSERT INTO t VALUES (true, 1Y, 2S, 1.5F, 123.4567, X'00FF', DATE '2026-07-08', TIMESTAMP '2026-07-08 09:10:11.123456',
  TIMESTAMP_NTZ '2026-07-08 09:10:11.123456', 'ab', 'cd')

-- case: overwrite_table
-- from: parted
-- then: SELECT * FROM t
INSERT OVERWRITE t VALUES (3, 'p1')

-- case: overwrite_table_keyword
-- from: parted
-- then: SELECT * FROM t
INSERT OVERWRITE TABLE t SELECT 4, 'p4'

-- case: overwrite_all_partitions
-- from: parted
-- then: SELECT * FROM t
INSERT OVERWRITE t PARTITION (pt) VALUES (3, 'p1')

-- case: overwrite_partition
-- from: parted
-- then: SELECT * FROM t
INSERT OVERWRITE t PARTITION (pt = 'p1') VALUES (3)

-- case: overwrite_partition_of_two
-- from: hours
-- then: SELECT * FROM t
INSERT OVERWRITE t PARTITION (dt = '2026-03-01', hh = 8) SELECT 7, 'tea'

-- case: overwrite_part_of_the_partition
-- from: hours
-- then: SELECT * FROM t
INSERT OVERWRITE t PARTITION (dt = '2026-03-01') SELECT 7, 'tea', 5

-- case: overwrite_partition_with_nothing
-- from: parted
-- then: SELECT * FROM t
INSERT OVERWRITE t PARTITION (pt = 'p1') SELECT id FROM t WHERE false

-- case: overwrite_dynamic
-- from: parted
-- start: SET spark.sql.sources.partitionOverwriteMode=dynamic
-- then: SELECT * FROM t
INSERT OVERWRITE t VALUES (3, 'p1')

-- case: overwrite_dynamic_two_partitions
-- from: hours
-- start: SET spark.sql.sources.partitionOverwriteMode=dynamic
-- then: SELECT * FROM t
INSERT OVERWRITE t VALUES (8, 'oil', '2026-03-01', 9), (9, 'tin', '2026-03-09', 1)

-- case: overwrite_keyed
-- from: keyed
-- then: SELECT * FROM t
INSERT OVERWRITE t SELECT 1, 1, 'only'

-- case: truncate
-- from: plain
-- then: SELECT * FROM t
TRUNCATE TABLE t

-- case: truncate_partition
-- from: parted
-- then: SELECT * FROM t
TRUNCATE TABLE t PARTITION (pt = 'p1')

-- case: update_where
-- from: keyed
-- then: SELECT * FROM t
UPDATE t SET c = 'changed' WHERE a = 1

-- case: update_expression
-- from: keyed
-- then: SELECT * FROM t
UPDATE t SET b = b * 2 + 1, c = concat(c, '-', CAST(a AS STRING)) WHERE a IN (2, 3)

-- case: update_all
-- from: keyed
-- then: SELECT * FROM t
UPDATE t SET b = 0

-- case: update_struct_field
-- start: CREATE TABLE t (id INT, s STRUCT<c1: INT, c2: STRING>, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')
-- start: INSERT INTO t VALUES (1, named_struct('c1', 1, 'c2', 'old'), 'n1'), (2, named_struct('c1', 2, 'c2', 'old'), 'n2')
-- then: SELECT * FROM t
UPDATE t SET s.c2 = 'new' WHERE s.c1 = 1

-- case: update_alias
-- from: keyed
-- then: SELECT * FROM t
UPDATE t AS x SET x.b = x.b - 1 WHERE x.c = 'c5'

-- case: update_in_subquery
-- from: pair
-- then: SELECT * FROM target
UPDATE target SET b = -1 WHERE a IN (SELECT a FROM source WHERE b > 200)

-- case: update_exists
-- from: pair
-- then: SELECT * FROM target
UPDATE target SET c = 'seen' WHERE EXISTS (SELECT 1 FROM source s WHERE s.a = target.a AND s.c > 'c2')

-- case: update_scalar_subquery
-- from: pair
-- then: SELECT * FROM target
UPDATE target SET b = (SELECT max(b) FROM source) WHERE a < 3

-- case: update_append_table
-- from: plain
-- then: SELECT * FROM t
UPDATE t SET b = 'many' WHERE a >= 2

-- case: update_vectors
-- from: vectors
-- then: SELECT * FROM t
UPDATE t SET c = 'changed' WHERE b > 15 AND b < 45

-- case: update_partitioned
-- from: hours
-- then: SELECT * FROM t
UPDATE t SET item = 'sold' WHERE dt = '2026-03-01'

-- case: update_key_column
-- from: keyed
-- error: yes
UPDATE t SET a = 9 WHERE a = 1

-- case: update_unknown_column
-- from: keyed
-- error: yes
UPDATE t SET nope = 9 WHERE a = 1

-- case: update_case
-- from: keyed
-- then: SELECT * FROM t
UPDATE t SET c = CASE WHEN b > 25 THEN 'high' ELSE NULL END WHERE a <> 5

-- case: delete_where
-- from: keyed
-- then: SELECT * FROM t
DELETE FROM t WHERE c = 'c2'

-- case: delete_all
-- from: plain
-- then: SELECT * FROM t
DELETE FROM t

-- case: delete_null
-- from: plain
-- then: SELECT * FROM t
DELETE FROM t WHERE b IS NULL

-- case: delete_null_comparison
-- java: 0.9.0 also deletes rows for which the condition is null
-- rows: [[1, "one", 1.5], [3, null, null]]
-- from: plain
-- then: SELECT * FROM t
DELETE FROM t WHERE c <> 1.5

-- case: delete_range
-- from: keyed
-- then: SELECT * FROM t
DELETE FROM t WHERE a BETWEEN 2 AND 4 OR c LIKE '%5'

-- case: delete_in_subquery
-- from: pair
-- then: SELECT * FROM target
DELETE FROM target WHERE a IN (SELECT a FROM source)

-- case: delete_not_exists
-- from: pair
-- then: SELECT * FROM target
DELETE FROM target AS x WHERE NOT EXISTS (SELECT 1 FROM source s WHERE s.a = x.a)

-- case: delete_scalar_subquery
-- from: pair
-- then: SELECT * FROM target
DELETE FROM target WHERE b < (SELECT avg(b) / 20 FROM source)

-- case: delete_partition
-- from: hours
-- then: SELECT * FROM t
DELETE FROM t WHERE dt = '2026-03-01'

-- case: delete_append_table
-- from: plain
-- then: SELECT * FROM t
DELETE FROM t WHERE length(b) = 3 AND a % 2 = 0

-- case: delete_vectors
-- from: vectors
-- then: SELECT * FROM t
DELETE FROM t WHERE b = 20

-- case: delete_partial_update
-- java: 0.9.0 writes the delete, and the table can no longer be read
-- start: CREATE TABLE t (k INT, a STRING, b INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'partial-update')
-- start: INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)
-- error: yes
DELETE FROM t WHERE k = 1

-- case: delete_unknown_column
-- from: keyed
-- error: yes
DELETE FROM t WHERE nope = 1

-- case: delete_functions
-- from: plain
-- then: SELECT * FROM t
DELETE FROM t WHERE upper(coalesce(b, 'gone')) IN ('GONE', 'ONE')

-- case: schema_merge_insert
-- java: 0.9.0 refuses the extra column before it looks at the option
-- from: plain
-- start: SET `spark.paimon.write.merge-schema` = true
-- then: SELECT * FROM t
-- rows: [[1, "one", 1.5, null], [2, "two", 2.5, null], [3, null, null, null], [4, "four", 4.5, 40]]
INSERT INTO t BY NAME SELECT 4 AS a, 'four' AS b, 4.5D AS c, 40 AS d

-- case: schema_merge_off
-- from: plain
-- error: yes
INSERT INTO t BY NAME SELECT 4 AS a, 'four' AS b, 4.5D AS c, 40 AS d

-- case: schema_merge_widens
-- java: newer than 0.9.0
-- from: plain
-- start: SET `spark.paimon.write.merge-schema` = true
-- start: SET `spark.paimon.write.merge-schema.type-widening` = true
-- then: SELECT a, b FROM t WHERE a > 2
-- rows: [[3, null], [5000000000, "far"]]
INSERT INTO t BY NAME SELECT 5000000000 AS a, 'far' AS b, 4.5D AS c
