-- case: create_database
-- then: SHOW DATABASES LIKE '{db}_more'
CREATE DATABASE {db}_more

-- case: create_database_if_not_exists
-- start: CREATE DATABASE {db}_more
-- then: SHOW DATABASES LIKE '{db}_more'
CREATE DATABASE IF NOT EXISTS {db}_more

-- case: create_database_twice
-- start: CREATE DATABASE {db}_more
-- error: yes
CREATE DATABASE {db}_more

-- case: create_schema
-- then: SHOW SCHEMAS LIKE '{db}_more'
CREATE SCHEMA {db}_more

-- case: create_database_properties
-- then: SHOW DATABASES LIKE '{db}_more'
CREATE DATABASE {db}_more COMMENT 'second floor' WITH DBPROPERTIES ('floor' = '2')

-- case: drop_database
-- start: CREATE DATABASE {db}_more
-- then: SHOW DATABASES LIKE '{db}_more'
DROP DATABASE {db}_more

-- case: drop_database_if_exists
-- then: SHOW DATABASES LIKE '{db}_more'
DROP DATABASE IF EXISTS {db}_more

-- case: drop_database_missing
-- error: yes
DROP DATABASE {db}_more

-- case: drop_database_with_tables
-- start: CREATE DATABASE {db}_more
-- start: CREATE TABLE {db}_more.x (a INT)
-- error: yes
DROP DATABASE {db}_more

-- case: drop_database_cascade
-- start: CREATE DATABASE {db}_more
-- start: CREATE TABLE {db}_more.x (a INT)
-- then: SHOW DATABASES LIKE '{db}_more'
DROP DATABASE {db}_more CASCADE

-- case: alter_database_properties
-- java: 0.9.0 alters no databases
-- start: CREATE DATABASE {db}_more
-- then: SHOW DATABASES LIKE '{db}_more'
-- rows: [["{db}_more"]]
ALTER DATABASE {db}_more SET DBPROPERTIES ('owner' = 'night shift')

-- case: alter_schema_properties
-- java: 0.9.0 alters no databases
-- start: CREATE DATABASE {db}_more
-- then: SHOW DATABASES LIKE '{db}_more'
-- rows: [["{db}_more"]]
ALTER SCHEMA {db}_more SET PROPERTIES ('owner' = 'night shift', 'floor' = '3')

-- case: alter_database_location
-- java: 0.9.0 alters no databases
-- start: CREATE DATABASE {db}_more
-- error: yes
ALTER DATABASE {db}_more SET LOCATION 'file:/tmp/{db}_elsewhere'

-- case: use_database
-- start: CREATE DATABASE {db}_more
-- then: SHOW CURRENT NAMESPACE
USE {db}_more

-- case: use_catalog_and_database
-- start: CREATE DATABASE {db}_more
-- then: SHOW CURRENT NAMESPACE
USE paimon.{db}_more

-- case: use_missing_database
-- error: yes
USE {db}_missing

-- case: create_table_columns
-- then: DESCRIBE visits
CREATE TABLE visits (visitor BIGINT, page BIGINT, action STRING, dt STRING, hour STRING)

-- case: create_table_key
-- then: SHOW TBLPROPERTIES visits ('primary-key')
CREATE TABLE visits (visitor BIGINT, page BIGINT, action STRING, dt STRING, hour STRING)
TBLPROPERTIES ('primary-key' = 'dt,hour,visitor')

-- case: create_table_key_and_partitions
-- then: DESCRIBE visits
CREATE TABLE visits (visitor BIGINT, page BIGINT, action STRING, dt STRING, hour STRING)
PARTITIONED BY (dt, hour) TBLPROPERTIES ('primary-key' = 'dt,hour,visitor', 'bucket' = '4')

-- case: create_table_if_not_exists
-- from: plain
-- then: DESCRIBE t
CREATE TABLE IF NOT EXISTS t (other BIGINT)

-- case: create_table_twice
-- from: plain
-- error: yes
CREATE TABLE t (other BIGINT)

-- case: create_table_types
-- then: DESCRIBE everything
CREATE TABLE everything (b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f32 FLOAT, f64 DOUBLE, num DECIMAL(18, 4),
  s STRING, c CHAR(4), vc VARCHAR(20), bin BINARY, d DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ,
  arr ARRAY<INT>, mp MAP<STRING, DOUBLE>, st STRUCT<x: INT, y: STRUCT<z: ARRAY<STRING>>>)

-- case: create_table_not_null
-- then: DESCRIBE strict
CREATE TABLE strict (a INT NOT NULL, b STRING)

-- case: create_table_not_null_refuses_null
-- start: CREATE TABLE strict (a INT NOT NULL, b STRING)
-- error: yes
INSERT INTO strict VALUES (CAST(NULL AS INT), 'x')

-- case: create_table_comments
-- then: DESCRIBE noted
CREATE TABLE noted (a INT COMMENT 'first of all', b STRING COMMENT 'any text') COMMENT 'a table with notes'

-- case: create_table_defaults
-- java: 0.9.0 knows no DEFAULT in CREATE TABLE
-- then: INSERT INTO d (a) VALUES (1); SELECT * FROM d
-- rows: [[1, "fresh", 5]]
CREATE TABLE d (a BIGINT, b STRING DEFAULT 'fresh', c INT DEFAULT 5)

-- case: create_table_nested_defaults
-- refused: a default must be a literal
-- java: 0.9.0 knows no DEFAULT in CREATE TABLE
-- then: INSERT INTO d (a) VALUES (1); SELECT a, tags FROM d
-- rows: [[1, ["x", "y"]]]
CREATE TABLE d (a BIGINT, tags ARRAY<STRING> DEFAULT ARRAY('x', 'y'))

-- case: create_table_using_paimon
-- then: DESCRIBE u
CREATE TABLE u (a INT) USING paimon

-- case: create_table_using_delta
-- error: yes
CREATE TABLE u (a INT) USING delta

-- case: create_table_using_csv
-- java: 0.9.0 makes a table of ours from USING csv too
-- error: yes
CREATE TABLE u (a INT) USING csv

-- case: create_table_orc
-- then: INSERT INTO o VALUES (1, 'x'); SELECT * FROM o
CREATE TABLE o (a INT, b STRING) TBLPROPERTIES ('file.format' = 'orc')

-- case: create_table_avro
-- then: INSERT INTO o VALUES (1, 'x'); SELECT * FROM o
CREATE TABLE o (a INT, b STRING) TBLPROPERTIES ('file.format' = 'avro')

-- case: create_table_location
-- java: 0.9.0 takes a place of the table's own in a filesystem catalog, where nothing remembers it
-- error: yes
CREATE TABLE placed (a INT) LOCATION '{out}/placed'

-- case: create_table_from_location
-- java: 0.9.0 makes a table without columns
-- error: yes
CREATE TABLE placed LOCATION '{out}/placed'

-- case: create_table_qualified
-- then: DESCRIBE q
CREATE TABLE paimon.{db}.q (a INT)

-- case: create_table_quoted_names
-- then: DESCRIBE `odd name`
CREATE TABLE `odd name` (`select` INT, `a b` STRING)

-- case: create_table_partition_column_types
-- then: DESCRIBE p
CREATE TABLE p (a INT) PARTITIONED BY (dt STRING, hh INT)

-- case: create_table_partition_missing
-- error: yes
CREATE TABLE p (a INT) PARTITIONED BY (dt)

-- case: create_table_key_missing
-- error: yes
CREATE TABLE p (a INT) TBLPROPERTIES ('primary-key' = 'b')

-- case: create_table_unknown_type
-- error: yes
CREATE TABLE p (a INTERVALS)

-- case: create_table_partial_update
-- then: INSERT INTO pu VALUES (1, 'x', NULL); INSERT INTO pu VALUES (1, NULL, 2); SELECT * FROM pu
CREATE TABLE pu (k INT, a STRING, b INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'partial-update')

-- case: create_table_aggregation
-- then: INSERT INTO agg VALUES (1, 2, 5); INSERT INTO agg VALUES (1, 3, 4); SELECT * FROM agg
CREATE TABLE agg (k INT, total BIGINT, best INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1',
  'merge-engine' = 'aggregation', 'fields.total.aggregate-function' = 'sum', 'fields.best.aggregate-function' = 'max')

-- case: create_table_first_row
-- then: INSERT INTO fr VALUES (1, 'x'); INSERT INTO fr VALUES (1, 'y'), (2, 'z'); SELECT * FROM fr
CREATE TABLE fr (k INT, a STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'first-row', 'changelog-producer' = 'lookup')

-- case: ctas
-- from: plain
-- then: SELECT * FROM copied
CREATE TABLE copied AS SELECT * FROM t

-- case: ctas_expression
-- from: plain
-- then: SELECT * FROM copied
CREATE TABLE copied AS SELECT a + 1 AS next, upper(b) AS loud FROM t WHERE a < 3

-- case: ctas_partitioned
-- from: hours
-- then: SHOW PARTITIONS copied
CREATE TABLE copied PARTITIONED BY (dt) AS SELECT * FROM t

-- case: ctas_options
-- from: plain
-- then: SHOW TBLPROPERTIES copied ('file.format')
CREATE TABLE copied TBLPROPERTIES ('file.format' = 'orc') AS SELECT * FROM t

-- case: ctas_key
-- from: hours
-- then: SELECT * FROM copied
CREATE TABLE copied TBLPROPERTIES ('primary-key' = 'dt') AS SELECT dt, max(id) AS id FROM t GROUP BY dt

-- case: ctas_key_and_partitions
-- from: hours
-- then: SELECT * FROM copied
CREATE TABLE copied PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,hh') AS SELECT dt, hh, id FROM t

-- case: ctas_if_not_exists
-- from: plain
-- then: SELECT * FROM t
CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS z

-- case: create_or_replace_columns
-- from: plain
-- then: DESCRIBE t
CREATE OR REPLACE TABLE t (x INT, y STRING)

-- case: create_or_replace_new
-- then: DESCRIBE fresh
CREATE OR REPLACE TABLE fresh (x INT)

-- case: create_or_replace_as
-- from: plain
-- start: CREATE TABLE s AS SELECT a, b FROM t
-- then: SELECT * FROM t
CREATE OR REPLACE TABLE t TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '2') AS SELECT a, b FROM s

-- case: replace_table
-- from: plain
-- then: SELECT * FROM t
REPLACE TABLE t (a BIGINT, z STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '4')

-- case: replace_table_keeps_history
-- refused: the table has no snapshot
-- java: 0.9.0 drops the table and makes a new one
-- from: plain
-- start: REPLACE TABLE t (a BIGINT, z STRING)
-- rows: [[1, "one", 1.5], [2, "two", 2.5], [3, null, null]]
SELECT * FROM t VERSION AS OF 1

-- case: replace_table_as
-- from: plain
-- then: SELECT * FROM t
REPLACE TABLE t AS SELECT 9 AS nine

-- case: replace_table_missing
-- error: yes
REPLACE TABLE nowhere (a INT)

-- case: create_like
-- java: 0.9.0 knows no CREATE TABLE LIKE
-- from: hours
-- then: DESCRIBE twin
-- rows: [["id", "int", null], ["item", "string", null], ["dt", "string", null], ["hh", "int", null], ["# Partition Information", "", ""], ["# col_name", "data_type", "comment"], ["dt", "string", null], ["hh", "int", null]]
CREATE TABLE twin LIKE t

-- case: create_like_properties
-- java: 0.9.0 knows no CREATE TABLE LIKE
-- from: hours
-- then: SHOW TBLPROPERTIES twin ('bucket')
-- rows: [["bucket", "3"]]
CREATE TABLE IF NOT EXISTS twin LIKE t TBLPROPERTIES ('bucket' = '3')

-- case: drop_table
-- from: plain
-- then: SHOW TABLES
DROP TABLE t

-- case: drop_table_if_exists
-- then: SHOW TABLES
DROP TABLE IF EXISTS nowhere

-- case: drop_table_missing
-- error: yes
DROP TABLE nowhere

-- case: drop_table_qualified
-- from: plain
-- then: SHOW TABLES
DROP TABLE paimon.{db}.t

-- case: rename_table
-- from: plain
-- then: SELECT * FROM renamed
ALTER TABLE t RENAME TO renamed

-- case: rename_table_qualified
-- from: plain
-- then: SELECT * FROM renamed
ALTER TABLE paimon.{db}.t RENAME TO {db}.renamed

-- case: rename_table_with_catalog
-- error: yes
-- from: plain
ALTER TABLE paimon.{db}.t RENAME TO paimon.{db}.renamed

-- case: rename_table_to_existing
-- from: pair
-- error: yes
ALTER TABLE target RENAME TO source
