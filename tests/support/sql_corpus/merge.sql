-- case: merge_upsert
-- from: pair
-- then: SELECT * FROM target
MERGE INTO target USING source ON target.a = source.a
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *

-- case: merge_many_clauses
-- from: pair
-- then: SELECT * FROM target
MERGE INTO target USING source ON target.a = source.a
WHEN MATCHED AND target.a = 5 THEN UPDATE SET b = source.b + target.b
WHEN MATCHED AND source.c > 'c2' THEN UPDATE SET *
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND c > 'd' THEN INSERT (a, b, c) VALUES (a, CAST(b * 1.1 AS INT), c)
WHEN NOT MATCHED THEN INSERT *

-- case: merge_update_only
-- java: 0.9.0 resolves no qualified column in SET
-- from: pair
-- then: SELECT * FROM target
-- rows: [[1, 100, "C11"], [2, 20, "c2"], [3, 300, "C3"], [5, 500, "C0"]]
MERGE INTO target t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET t.b = s.b, t.c = upper(s.c)

-- case: merge_delete_only
-- from: pair
-- then: SELECT * FROM target
MERGE INTO target t USING source s ON t.a = s.a WHEN MATCHED AND s.b >= 300 THEN DELETE

-- case: merge_insert_only
-- from: pair
-- then: SELECT * FROM target
MERGE INTO target t USING source s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *

-- case: merge_insert_columns
-- from: pair
-- then: SELECT * FROM target
MERGE INTO target t USING source s ON t.a = s.a WHEN NOT MATCHED AND s.b < 800 THEN INSERT (a, b, c) VALUES (s.a * 10, s.b, 'in')

-- case: merge_subquery_source
-- java: 0.9.0 wants every column of the target in the source
-- from: pair
-- then: SELECT * FROM target
-- rows: [[1, 100, "c1"], [2, 20, "c2"], [3, 300, "c3"], [5, 500, "c5"], [7, 700, null]]
MERGE INTO target t USING (SELECT a, max(b) AS b FROM source WHERE a <> 9 GROUP BY a) s ON t.a = s.a
WHEN MATCHED THEN UPDATE SET b = s.b
WHEN NOT MATCHED THEN INSERT (a, b, c) VALUES (s.a, s.b, NULL)

-- case: merge_values_source
-- java: 0.9.0 wants every column of the target in the source
-- from: pair
-- then: SELECT * FROM target
-- rows: [[1, 10, "c1"], [2, 20, "two"], [3, 30, "c3"], [5, 50, "c5"], [8, 0, "eight"]]
MERGE INTO target t USING (SELECT * FROM VALUES (2, 'two'), (8, 'eight') AS v(a, word)) s ON t.a = s.a
WHEN MATCHED THEN UPDATE SET c = s.word
WHEN NOT MATCHED THEN INSERT (a, b, c) VALUES (s.a, 0, s.word)

-- case: merge_condition_beyond_key
-- from: pair
-- then: SELECT * FROM target
MERGE INTO target t USING source s ON t.a = s.a AND s.b > 200
WHEN MATCHED THEN UPDATE SET b = s.b

-- case: merge_not_matched_by_source
-- from: pair
-- then: SELECT * FROM target
MERGE INTO target t USING source s ON t.a = s.a
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED BY SOURCE THEN DELETE

-- case: merge_not_matched_by_source_update
-- java: 0.9.0 knows no WHEN NOT MATCHED BY SOURCE
-- from: pair
-- then: SELECT * FROM target
-- rows: [[1, 10, "c1"], [2, 20, "alone"], [3, 30, "c3"], [5, 50, "c5"], [7, 700, "c7"], [9, 900, "d9"]]
MERGE INTO target t USING source s ON t.a = s.a
WHEN NOT MATCHED BY TARGET THEN INSERT *
WHEN NOT MATCHED BY SOURCE AND t.b < 100 THEN UPDATE SET c = 'alone'

-- case: merge_ambiguous
-- from: pair
-- error: yes
MERGE INTO target t USING (SELECT * FROM VALUES (1, 'x'), (1, 'y') AS v(a, word)) s ON t.a = s.a
WHEN MATCHED THEN UPDATE SET c = s.word

-- case: merge_update_key
-- java: 0.9.0 writes the row under its new key and keeps the old one
-- from: pair
-- error: yes
MERGE INTO target t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = s.a + 1

-- case: merge_append_table
-- java: 0.9.0 cannot tell two append tables apart
-- from: heap
-- then: SELECT * FROM target
-- rows: [[1, 100, "c1"], [2, 20, "c2"], [7, 700, "c7"], [null, 0, "none"], [null, 9, "nil"]]
MERGE INTO target t USING source s ON t.a = s.a
WHEN MATCHED AND s.a = 3 THEN DELETE
WHEN MATCHED THEN UPDATE SET b = s.b
WHEN NOT MATCHED THEN INSERT *

-- case: merge_append_table_null_safe
-- java: 0.9.0 cannot tell two append tables apart
-- from: heap
-- then: SELECT * FROM target
-- rows: [[1, 10, "c11"], [2, 20, "c2"], [3, 30, "c33"], [7, 700, "c7"], [null, 0, "nil"]]
MERGE INTO target t USING source s ON t.a <=> s.a
WHEN MATCHED THEN UPDATE SET c = s.c
WHEN NOT MATCHED THEN INSERT *

-- case: merge_append_table_values
-- from: plain
-- then: SELECT * FROM t
MERGE INTO t USING (SELECT * FROM VALUES (1, 'uno', 0.5D), (3, 'tre', CAST(NULL AS DOUBLE)), (8, 'otto', 8.0D) AS v(a, b, c)) s ON t.a = s.a
WHEN MATCHED AND s.a = 1 THEN DELETE
WHEN MATCHED THEN UPDATE SET b = s.b
WHEN NOT MATCHED THEN INSERT *

-- case: merge_append_table_view
-- from: plain
-- start: CREATE TEMPORARY VIEW news AS SELECT * FROM VALUES (2, 'due', 0.5D), (9, NULL, 9.5D) AS v(a, b, c)
-- then: SELECT * FROM t
MERGE INTO t USING news ON t.a = news.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *

-- case: merge_vectors
-- from: vectors
-- start: CREATE TABLE s AS SELECT * FROM VALUES (1, 11, 'x'), (6, 66, 'y') AS v(a, b, c)
-- then: SELECT * FROM t
MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *

-- case: merge_partitioned
-- from: hours
-- then: SELECT * FROM t
MERGE INTO t USING (SELECT 1 AS id, 'nib' AS item, '2026-03-01' AS dt, 8 AS hh UNION ALL SELECT 5, 'jar', '2026-03-07', 1) s
ON t.dt = s.dt AND t.hh = s.hh AND t.id = s.id
WHEN MATCHED THEN UPDATE SET item = s.item
WHEN NOT MATCHED THEN INSERT *

-- case: merge_into_itself
-- from: pair
-- then: SELECT * FROM target
MERGE INTO target t USING (SELECT a, b FROM target WHERE a > 2) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b + 1

-- case: merge_unknown_column
-- from: pair
-- error: yes
MERGE INTO target t USING source s ON t.a = s.nope WHEN MATCHED THEN DELETE

-- case: merge_star_extra_columns
-- from: pair
-- start: CREATE TABLE wide AS SELECT 1 AS a, 11 AS b, 'w' AS c, 'extra' AS d
-- then: SELECT * FROM target
MERGE INTO target t USING wide s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *

-- case: merge_star_missing_columns
-- from: pair
-- start: CREATE TABLE narrow AS SELECT 1 AS a, 11 AS b
-- error: yes
MERGE INTO target t USING narrow s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *

-- case: merge_schema_evolution
-- java: newer than 0.9.0
-- from: pair
-- start: CREATE TABLE wide AS SELECT 1 AS a, 11 AS b, 'w' AS c, 'extra' AS d
-- start: SET `spark.paimon.write.merge-schema` = true
-- then: SELECT * FROM target WHERE a < 3
-- rows: [[1, 11, "w", "extra"], [2, 20, "c2", null]]
MERGE INTO target t USING wide s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
