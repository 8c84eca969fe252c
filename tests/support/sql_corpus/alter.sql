-- case: set_property
-- from: plain
-- then: SHOW TBLPROPERTIES t ('write-buffer-size')
ALTER TABLE t SET TBLPROPERTIES ('write-buffer-size' = '64 MB')

-- case: set_several_properties
-- from: plain
-- then: SHOW TBLPROPERTIES t ('snapshot.num-retained.max')
ALTER TABLE t SET TBLPROPERTIES ('snapshot.num-retained.min' = '3', 'snapshot.num-retained.max' = '9')

-- case: set_fixed_property
-- from: keyed
-- error: yes
ALTER TABLE t SET TBLPROPERTIES ('merge-engine' = 'first-row')

-- case: unset_property
-- from: plain
-- start: ALTER TABLE t SET TBLPROPERTIES ('write-buffer-size' = '64 MB')
-- then: SELECT count(*) AS n FROM `t$options` WHERE key = 'write-buffer-size'
ALTER TABLE t UNSET TBLPROPERTIES ('write-buffer-size')

-- case: unset_missing_property
-- from: plain
-- then: SELECT count(*) AS n FROM t
ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('write-buffer-size')

-- case: set_comment
-- from: plain
-- then: SELECT comment FROM `t$schemas` ORDER BY schema_id DESC LIMIT 1
ALTER TABLE t SET TBLPROPERTIES ('comment' = 'letters and numbers')

-- case: unset_comment
-- from: plain
-- start: ALTER TABLE t SET TBLPROPERTIES ('comment' = 'letters and numbers')
-- then: SELECT count(*) AS n FROM t
ALTER TABLE t UNSET TBLPROPERTIES ('comment')

-- case: comment_on_table
-- from: plain
-- then: SELECT comment FROM `t$schemas` ORDER BY schema_id DESC LIMIT 1
COMMENT ON TABLE t IS 'letters and numbers'

-- case: add_columns
-- from: plain
-- then: SELECT * FROM t
ALTER TABLE t ADD COLUMNS (d INT, e STRING)

-- case: add_column_comment
-- from: plain
-- then: DESCRIBE t
ALTER TABLE t ADD COLUMN d INT COMMENT 'added later'

-- case: add_column_struct_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT v FROM t
-- rows: [[["a", 10, null]]]
ALTER TABLE t ADD COLUMN v.f3 STRING

-- case: add_column_element_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT l FROM t
-- rows: [[[["b", 20, null]]]]
ALTER TABLE t ADD COLUMN l.element.f3 STRING

-- case: add_column_value_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT m FROM t
-- rows: [[[[7, ["c", 30, null]]]]]
ALTER TABLE t ADD COLUMN m.value.f3 STRING

-- case: add_column_first
-- from: plain
-- then: DESCRIBE t
ALTER TABLE t ADD COLUMN d INT FIRST

-- case: add_column_after
-- from: plain
-- then: DESCRIBE t
ALTER TABLE t ADD COLUMN d INT AFTER a

-- case: add_existing_column
-- from: plain
-- error: yes
ALTER TABLE t ADD COLUMN b INT

-- case: add_column_default
-- java: 0.9.0 adds the column and forgets the default
-- from: plain
-- error: yes
ALTER TABLE t ADD COLUMN d INT DEFAULT 5

-- case: add_column_not_null
-- from: plain
-- error: yes
ALTER TABLE t ADD COLUMN d INT NOT NULL

-- case: rename_column
-- from: plain
-- then: SELECT a, text FROM t
ALTER TABLE t RENAME COLUMN b TO text

-- case: rename_struct_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT v FROM t
-- rows: [[["a", 10]]]
ALTER TABLE t RENAME COLUMN v.f1 TO f100

-- case: rename_element_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT l FROM t
-- rows: [[[["b", 20]]]]
ALTER TABLE t RENAME COLUMN l.element.f1 TO f100

-- case: rename_value_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT m FROM t
-- rows: [[[[7, ["c", 30]]]]]
ALTER TABLE t RENAME COLUMN m.value.f1 TO f100

-- case: rename_missing_column
-- from: plain
-- error: yes
ALTER TABLE t RENAME COLUMN nope TO yes

-- case: drop_columns
-- from: plain
-- then: SELECT * FROM t
ALTER TABLE t DROP COLUMNS (b, c)

-- case: drop_column
-- from: plain
-- then: SELECT * FROM t
ALTER TABLE t DROP COLUMN b

-- case: drop_missing_column_if_exists
-- from: plain
-- then: SELECT * FROM t
ALTER TABLE t DROP COLUMN IF EXISTS nope

-- case: drop_missing_column
-- from: plain
-- error: yes
ALTER TABLE t DROP COLUMN nope

-- case: drop_key_column
-- from: keyed
-- error: yes
ALTER TABLE t DROP COLUMN a

-- case: drop_struct_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT v FROM t
-- rows: [[["a"]]]
ALTER TABLE t DROP COLUMN v.f2

-- case: drop_element_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT l FROM t
-- rows: [[[["b"]]]]
ALTER TABLE t DROP COLUMN l.element.f2

-- case: drop_value_field
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT m FROM t
-- rows: [[[[7, ["c"]]]]]
ALTER TABLE t DROP COLUMN m.value.f2

-- case: alter_column_comment
-- from: plain
-- then: DESCRIBE t
ALTER TABLE t ALTER COLUMN b COMMENT 'the word for it'

-- case: alter_column_first
-- from: plain
-- then: SELECT * FROM t
ALTER TABLE t ALTER COLUMN c FIRST

-- case: alter_column_after
-- from: plain
-- then: SELECT * FROM t
ALTER TABLE t ALTER COLUMN a AFTER b

-- case: alter_column_type
-- from: plain
-- then: SELECT * FROM t
ALTER TABLE t ALTER COLUMN a TYPE DOUBLE

-- case: alter_column_type_wider
-- from: plain
-- then: DESCRIBE t
ALTER TABLE t ALTER COLUMN a TYPE BIGINT

-- case: alter_column_type_impossible
-- from: plain
-- error: yes
ALTER TABLE t ALTER COLUMN b TYPE ARRAY<INT>

-- case: alter_struct_field_type
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT v FROM t
-- rows: [[["a", 10]]]
ALTER TABLE t ALTER COLUMN v.f2 TYPE BIGINT

-- case: alter_element_field_type
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT l FROM t
-- rows: [[[["b", 20]]]]
ALTER TABLE t ALTER COLUMN l.element.f2 TYPE BIGINT

-- case: alter_value_field_type
-- java: 0.9.0 alters no nested columns
-- from: nested
-- then: SELECT m FROM t
-- rows: [[[[7, ["c", 30]]]]]
ALTER TABLE t ALTER COLUMN m.value.f2 TYPE BIGINT

-- case: change_column
-- from: plain
-- then: DESCRIBE t
ALTER TABLE t CHANGE COLUMN a a BIGINT

-- case: drop_not_null
-- start: CREATE TABLE t (a INT NOT NULL, b STRING)
-- then: INSERT INTO t VALUES (CAST(NULL AS INT), 'x'); SELECT * FROM t
ALTER TABLE t ALTER COLUMN a DROP NOT NULL

-- case: set_not_null
-- from: plain
-- error: yes
ALTER TABLE t ALTER COLUMN a SET NOT NULL

-- case: set_default
-- java: 0.9.0 knows no defaults of columns in SQL
-- from: plain
-- then: INSERT INTO t (a) VALUES (9); SELECT a, b FROM t WHERE a = 9
-- rows: [[9, "none yet"]]
ALTER TABLE t ALTER COLUMN b SET DEFAULT 'none yet'

-- case: drop_default
-- java: 0.9.0 knows no defaults of columns in SQL
-- from: plain
-- start: ALTER TABLE t ALTER COLUMN b SET DEFAULT 'none yet'
-- then: INSERT INTO t (a) VALUES (9); SELECT a, b FROM t WHERE a = 9
-- rows: [[9, null]]
ALTER TABLE t ALTER COLUMN b DROP DEFAULT

-- case: drop_partition
-- from: hours
-- then: SELECT * FROM t
ALTER TABLE t DROP PARTITION (dt = '2026-03-01', hh = 9)

-- case: drop_partition_if_exists
-- from: hours
-- then: SELECT * FROM t
ALTER TABLE t DROP IF EXISTS PARTITION (dt = '2031-03-01', hh = 9)

-- case: drop_partition_of_plain_table
-- from: plain
-- error: yes
ALTER TABLE t DROP PARTITION (a = 1)

-- case: add_partition
-- from: hours
-- error: yes
ALTER TABLE t ADD PARTITION (dt = '2026-03-04', hh = 1)

-- case: alter_missing_table
-- error: yes
ALTER TABLE nowhere ADD COLUMN a INT
