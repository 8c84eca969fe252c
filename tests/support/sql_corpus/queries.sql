-- case: select_star
-- on: shop
SELECT * FROM orders

-- case: select_columns
-- on: shop
SELECT id, amount * 2 AS twice FROM orders

-- case: select_qualified
-- on: shop
SELECT o.id FROM paimon.{db}.orders AS o

-- case: select_database_qualified
-- on: shop
SELECT orders.id, orders.day FROM {db}.orders

-- case: select_key
-- on: shop
SELECT * FROM orders WHERE day = '2026-01-01'

-- case: select_key_and_more
-- on: shop
SELECT * FROM orders WHERE day = '2026-01-01' AND id = 2

-- case: select_key_range
-- on: shop
SELECT * FROM orders WHERE day = '2026-01-01' AND id > 0 AND id < 2

-- case: select_or
-- on: shop
SELECT * FROM orders WHERE day = '2026-01-02' OR id = 5

-- case: select_in_like_null
-- on: shop
SELECT id FROM orders WHERE id IN (1, 2, 5) AND (note LIKE 'pa%' OR note IS NULL)

-- case: select_between_not
-- on: shop
SELECT id FROM orders WHERE NOT (amount BETWEEN 7 AND 21)

-- case: select_order_limit
-- on: shop
-- ordered: yes
SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 2

-- case: select_limit_offset
-- on: shop
-- ordered: yes
SELECT id FROM orders ORDER BY id LIMIT 2 OFFSET 1

-- case: order_nulls
-- on: shop
-- ordered: yes
SELECT cust, score FROM customers ORDER BY score

-- case: order_nulls_descending
-- on: shop
-- ordered: yes
SELECT cust, city FROM customers ORDER BY city DESC, cust

-- case: order_nulls_last
-- on: shop
-- ordered: yes
SELECT cust, score FROM customers ORDER BY score NULLS LAST

-- case: distinct
-- on: shop
SELECT DISTINCT city FROM customers

-- case: aggregate
-- on: shop
SELECT count(*) AS n, count(note) AS notes, sum(amount) AS total, min(day) AS first, max(id) AS last FROM orders

-- case: aggregate_unnamed
-- on: shop
SELECT count(*) FROM orders

-- case: group_having
-- on: shop
SELECT day, count(*) AS n, avg(amount) AS mean FROM orders GROUP BY day HAVING count(*) > 1

-- case: group_by_position
-- on: shop
SELECT city, count(1) AS n FROM customers GROUP BY 1

-- case: group_all
-- on: shop
SELECT day, sum(amount) AS s FROM orders GROUP BY ALL

-- case: rollup
-- on: shop
SELECT day, sum(amount) AS s FROM orders GROUP BY ROLLUP (day)

-- case: count_distinct
-- on: shop
SELECT count(DISTINCT city) AS cities FROM customers

-- case: filter_clause
-- on: shop
SELECT count(*) FILTER (WHERE note IS NULL) AS bare, sum(id) AS ids FROM orders

-- case: join
-- on: shop
SELECT o.id, c.name FROM orders o JOIN customers c ON o.id = c.cust

-- case: left_join
-- on: shop
SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.id = c.cust AND c.city = 'Bern'

-- case: full_join
-- on: shop
SELECT o.id, c.cust FROM (SELECT * FROM orders WHERE id > 3) o FULL OUTER JOIN customers c ON o.id = c.cust

-- case: semi_join
-- on: shop
SELECT cust FROM customers c LEFT SEMI JOIN orders o ON o.id = c.cust AND o.note IS NOT NULL

-- case: anti_join
-- on: shop
SELECT id FROM orders o LEFT ANTI JOIN customers c ON o.id = c.cust

-- case: cross_join
-- on: shop
SELECT count(*) AS n FROM orders CROSS JOIN customers

-- case: join_using
-- on: shop
SELECT a.id, b.note FROM orders a JOIN orders b USING (id)

-- case: self_join
-- on: shop
SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.day = b.day AND a.id < b.id

-- case: union_all
-- on: shop
SELECT id FROM orders WHERE id < 2 UNION ALL SELECT cust FROM customers WHERE cust < 3

-- case: except_and_intersect
-- on: shop
(SELECT id FROM orders EXCEPT SELECT CAST(cust AS BIGINT) FROM customers) UNION (SELECT id FROM orders INTERSECT SELECT CAST(2 AS BIGINT))

-- case: with_clause
-- on: shop
WITH rich AS (SELECT * FROM orders WHERE amount > 10), names AS (SELECT cust, name FROM customers)
SELECT r.id, n.name FROM rich r JOIN names n ON r.id = n.cust

-- case: with_hides_table
-- on: shop
WITH orders AS (SELECT 42 AS id) SELECT id FROM orders

-- case: scalar_subquery
-- on: shop
SELECT id, amount - (SELECT min(amount) FROM orders) AS above FROM orders

-- case: in_subquery
-- on: shop
SELECT name FROM customers WHERE cust IN (SELECT id FROM orders WHERE note IS NOT NULL)

-- case: exists_correlated
-- on: shop
SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = c.cust AND o.amount > c.score * 5)

-- case: correlated_scalar
-- on: shop
SELECT c.name, (SELECT max(o.amount) FROM orders o WHERE o.id = c.cust) AS best FROM customers c

-- case: derived_table
-- on: shop
SELECT d.day, d.n FROM (SELECT day, count(*) AS n FROM orders GROUP BY day) AS d WHERE d.n = 1

-- case: window
-- on: shop
SELECT id, row_number() OVER (PARTITION BY day ORDER BY amount DESC) AS place, sum(amount) OVER (ORDER BY id) AS running FROM orders

-- case: case_when
-- on: shop
SELECT id, CASE WHEN amount > 20 THEN 'high' WHEN amount < 1 THEN 'low' END AS level FROM orders

-- case: null_functions
-- on: shop
SELECT id, coalesce(note, '?') AS a, nvl(note, 'none') AS b, nullif(note, 'gift') AS c, note <=> NULL AS d FROM orders

-- case: text_functions
-- on: shop
SELECT upper(name) AS u, substring(name, 1, 1) AS s, length(name) AS n, concat(name, '@', city) AS c, concat_ws('-', name, city) AS w FROM customers

-- case: integer_division
-- on: shop
SELECT id, id / 2 AS half, id DIV 2 AS whole, id % 2 AS rest FROM orders

-- case: division_by_zero
-- java: Spark 3.5 answers null, Spark 4 and ours refuse as ANSI SQL does
-- error: yes
-- spark: it decides by its ANSI setting
-- on: shop
SELECT id, id / 0 AS nothing FROM orders

-- case: decimal_arithmetic
-- on: shop
SELECT id, amount + 1 AS a, amount * amount AS b, amount / 3 AS c FROM orders

-- case: date_arithmetic
-- on: shop
SELECT cust, date_add(since, 30) AS a, since + INTERVAL 1 DAY AS b, datediff(DATE '2026-01-01', since) AS c, year(since) AS y FROM customers

-- case: date_format
-- on: shop
SELECT cust, date_format(since, 'yyyy/MM') AS m, add_months(since, 1) AS next, trunc(since, 'MM') AS start FROM customers

-- case: casts
-- on: shop
SELECT CAST(amount AS INT) AS i, CAST(id AS STRING) AS s, CAST(day AS DATE) AS d, CAST('x' AS STRING) AS x FROM orders

-- case: rounding
-- on: shop
SELECT id, round(amount, 1) AS r, floor(amount) AS f, ceil(amount) AS c, abs(-amount) AS a FROM orders

-- case: struct_field
-- on: nested
SELECT v.f1, v.f2 + 1 AS more FROM t

-- case: array_element
-- on: nested
SELECT l[0].f2 AS first, size(l) AS n FROM t

-- case: map_value
-- on: nested
SELECT m[7].f1 AS seven, map_keys(m) AS keys FROM t

-- case: explode
-- on: nested
SELECT k, e.f1, e.f2 FROM t LATERAL VIEW explode(l) x AS e

-- case: explode_select
-- on: nested
SELECT k, explode(map_keys(m)) AS key FROM t

-- case: higher_order
-- on: nested
SELECT transform(l, e -> e.f2 * 2) AS doubled, exists(l, e -> e.f2 > 10) AS any FROM t

-- case: collect
-- on: shop
SELECT day, sort_array(collect_list(id)) AS ids FROM orders GROUP BY day

-- case: values_only
-- on: shop
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(n, s)

-- case: no_table
-- on: shop
SELECT 1 AS one, 'x' AS letter, NULL AS nothing

-- case: join_values
-- on: shop
SELECT o.id, v.s FROM orders o JOIN (VALUES (1, 'uno'), (3, 'tre')) AS v(n, s) ON o.id = v.n

-- case: table_statement
-- on: shop
TABLE customers

-- case: temp_view
-- from: plain
-- start: CREATE TEMPORARY VIEW big AS SELECT * FROM t WHERE a > 1
SELECT a, b FROM big

-- case: replace_temp_view
-- from: plain
-- start: CREATE OR REPLACE TEMP VIEW big AS SELECT * FROM t WHERE a > 2
-- then: SELECT a FROM big
CREATE OR REPLACE TEMPORARY VIEW big AS SELECT * FROM t WHERE a > 1

-- case: drop_temp_view
-- from: plain
-- start: CREATE TEMPORARY VIEW big AS SELECT * FROM t WHERE a > 1
-- then: SELECT count(*) AS n FROM t
DROP VIEW big

-- case: temp_view_hides_table
-- from: plain
-- start: CREATE TEMPORARY VIEW t AS SELECT 5 AS five
SELECT five FROM t

-- case: create_view
-- java: 0.9.0 has no views in this catalog
-- from: plain
-- error: yes
CREATE VIEW kept AS SELECT * FROM t

-- case: create_or_replace_view
-- java: 0.9.0 has no views in this catalog
-- from: plain
-- error: yes
CREATE OR REPLACE VIEW kept AS SELECT * FROM t

-- case: drop_view
-- java: 0.9.0 has no views in this catalog
-- from: plain
-- error: yes
DROP VIEW kept

-- case: metadata_columns
-- refused: __paimon_
-- on: log
SELECT k, __paimon_row_index AS place, length(__paimon_file_path) > 0 AS known FROM t

-- case: metadata_partition_and_bucket
-- refused: __paimon_
-- java: newer than 0.9.0
-- on: shop
-- rows: [[1, 0], [2, 0], [3, 0], [4, 0], [5, 0]]
SELECT id, __paimon_bucket * 0 AS b FROM orders

-- case: unknown_table
-- on: shop
-- error: yes
SELECT * FROM oders

-- case: unknown_column
-- on: shop
-- error: yes
SELECT amout FROM orders

-- case: unknown_database
-- on: shop
-- error: yes
SELECT * FROM no_such_place.orders

-- case: syntax_error
-- on: shop
-- error: yes
SELEC * FROM orders

-- case: select_with_parameters
-- on: shop
-- args: {"day": "2026-01-01", "least": 2}
SELECT id FROM orders WHERE day = :day AND id >= :least

-- case: max_partition
-- java: newer than 0.9.0
-- on: shop
-- rows: [["2026-01-03"]]
SELECT sys.max_pt('orders') AS newest

-- case: max_partition_filter
-- java: newer than 0.9.0
-- on: shop
-- rows: [[4], [5]]
SELECT id FROM orders WHERE day = sys.max_pt('orders')

-- case: path_to_descriptor
-- refused: sys
-- java: newer than 0.9.0
-- on: shop
-- rows: [[true]]
SELECT length(sys.path_to_descriptor('file:///data/picture.bin')) > 0 AS made

-- case: descriptor_to_string
-- refused: sys
-- java: newer than 0.9.0
-- on: shop
-- rows: [[true]]
SELECT sys.descriptor_to_string(sys.path_to_descriptor('file:///data/picture.bin')) LIKE '%picture.bin%' AS same

-- case: create_function_from_jar
-- spark: functions of classes belong to Spark's own catalog
-- java: 0.9.0 has no functions in this catalog
-- on: shop
-- error: yes
CREATE FUNCTION twice AS 'com.example.Twice' USING JAR '/tmp/twice.jar'

-- case: drop_function_from_catalog
-- spark: functions of classes belong to Spark's own catalog
-- java: 0.9.0 has no functions in this catalog
-- on: shop
-- error: yes
DROP FUNCTION twice

-- case: describe_function
-- java: 0.9.0 has no functions in this catalog
-- on: shop
-- error: yes
DESCRIBE FUNCTION {db}.twice

-- case: vector_search
-- java: newer than 0.9.0
-- on: shop
-- error: yes
SELECT * FROM vector_search('customers', 'score', array(1.0f), 2)

-- case: full_text_search
-- java: newer than 0.9.0
-- on: shop
-- error: yes
SELECT * FROM full_text_search('customers', 'name', 'ada', 2)
