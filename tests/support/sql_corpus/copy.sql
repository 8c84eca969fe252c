-- case: copy_csv
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- columns: file_name, status, rows_loaded, rows_parsed, errors_seen, first_error
-- then: SELECT * FROM t
-- rows: [[1, "ann"], [2, "ben"]]
COPY INTO t FROM '{files}/csv' FILE_FORMAT = (TYPE = CSV)

-- case: copy_csv_columns
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING, city STRING)
-- then: SELECT * FROM t
-- rows: [[3, "cid", null]]
COPY INTO t (id, name) FROM '{files}/header' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1)

-- case: copy_csv_null_if
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- then: SELECT * FROM t
-- rows: [[4, null], [5, "eve"]]
COPY INTO t FROM '{files}/pipe' FILE_FORMAT = (TYPE = CSV, FIELD_DELIMITER = '|', NULL_IF = ('NULL', '-')) PATTERN = '.*\.txt' FORCE = FALSE

-- case: copy_csv_twice
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- start: COPY INTO t FROM '{files}/csv' FILE_FORMAT = (TYPE = CSV)
-- then: SELECT * FROM t
-- rows: [[1, "ann"], [2, "ben"]]
COPY INTO t FROM '{files}/csv' FILE_FORMAT = (TYPE = CSV)

-- case: copy_csv_force
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- start: COPY INTO t FROM '{files}/csv' FILE_FORMAT = (TYPE = CSV)
-- then: SELECT * FROM t
-- rows: [[1, "ann"], [1, "ann"], [2, "ben"], [2, "ben"]]
COPY INTO t FROM '{files}/csv' FILE_FORMAT = (TYPE = CSV) FORCE = TRUE

-- case: copy_csv_bad_rows
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- error: yes
COPY INTO t FROM '{files}/bad' FILE_FORMAT = (TYPE = CSV)

-- case: copy_csv_bad_rows_continue
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- then: SELECT * FROM t
-- rows: [[6, "fay"]]
COPY INTO t FROM '{files}/bad' FILE_FORMAT = (TYPE = CSV) ON_ERROR = CONTINUE

-- case: copy_csv_bad_rows_skip_file
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- then: SELECT * FROM t
-- rows: []
COPY INTO t FROM '{files}/bad' FILE_FORMAT = (TYPE = CSV) ON_ERROR = SKIP_FILE

-- case: copy_json
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- then: SELECT * FROM t
-- rows: [[7, "gil"], [8, null]]
COPY INTO t FROM '{files}/json' FILE_FORMAT = (TYPE = JSON)

-- case: copy_json_lines_over_lines
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- then: SELECT * FROM t
-- rows: [[9, "hal"], [10, "ivy"]]
COPY INTO t FROM '{files}/array' FILE_FORMAT = (TYPE = JSON, MULTI_LINE = TRUE)

-- case: copy_parquet
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- then: SELECT * FROM t
-- rows: [[11, "jim"]]
COPY INTO t FROM '{files}/parquet' FILE_FORMAT = (TYPE = PARQUET) PATTERN = '.*\.parquet'

-- case: copy_unknown_format
-- java: newer than 0.9.0
-- start: CREATE TABLE t (id INT, name STRING)
-- error: yes
COPY INTO t FROM '{files}/csv' FILE_FORMAT = (TYPE = XML)

-- case: copy_to_csv
-- java: newer than 0.9.0
-- on: shop
-- columns: output_path, file_count, rows_written
-- rows: [["{out}/csv_out", 1, 4]]
COPY INTO '{out}/csv_out' FROM customers FILE_FORMAT = (TYPE = CSV, HEADER = TRUE, FIELD_DELIMITER = ';') OVERWRITE = TRUE

-- case: copy_query_to_csv
-- java: newer than 0.9.0
-- on: shop
-- rows: [["{out}/bern_out", 1, 2]]
COPY INTO '{out}/bern_out' FROM (SELECT cust, name FROM customers WHERE city = 'Bern') FILE_FORMAT = (TYPE = CSV, HEADER = TRUE) OVERWRITE = TRUE

-- case: copy_to_json
-- java: newer than 0.9.0
-- on: shop
-- rows: [["{out}/json_out", 1, 4]]
COPY INTO '{out}/json_out' FROM customers FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE

-- case: copy_to_parquet
-- java: newer than 0.9.0
-- on: shop
-- rows: [["{out}/parquet_out", 1, 4]]
COPY INTO '{out}/parquet_out' FROM customers FILE_FORMAT = (TYPE = PARQUET, COMPRESSION = GZIP) OVERWRITE = TRUE

-- case: copy_aggregate_to_parquet
-- java: newer than 0.9.0
-- on: shop
-- rows: [["{out}/sums_out", 1, 3]]
COPY INTO '{out}/sums_out' FROM (SELECT city, count(*) AS n FROM customers GROUP BY city) FILE_FORMAT = (TYPE = PARQUET) OVERWRITE = TRUE
