-- fixture: none

-- fixture: shop
CREATE TABLE orders (id BIGINT, amount DECIMAL(10,2), note STRING, day STRING) PARTITIONED BY (day)
  TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '2');
CREATE TABLE customers (cust INT, name STRING, city STRING, since DATE, score DOUBLE);
INSERT INTO orders VALUES (1, 10.50, 'new', '2026-01-01'), (2, 20.25, NULL, '2026-01-01'), (3, 7.00, 'gift', '2026-01-02');
INSERT INTO orders VALUES (2, 21.00, 'paid', '2026-01-01'), (4, 99.99, 'rush', '2026-01-03');
INSERT INTO orders VALUES (5, 0.01, NULL, '2026-01-03');
INSERT INTO customers VALUES (1, 'Ada', 'Bern', DATE '2020-02-29', 1.5), (2, 'Bo', 'Oslo', DATE '2021-12-31', NULL),
  (3, 'Cy', NULL, DATE '2022-06-15', -2.0), (4, 'Di', 'Bern', NULL, 4.25);
CALL sys.create_tag(table => 'orders', tag => 'opening', snapshot => 1);
CALL sys.create_tag(table => 'orders', tag => 'later', snapshot => 2);
CALL sys.create_branch(table => 'orders', branch => 'trial', tag => 'opening');

-- fixture: nested
CREATE TABLE t (k INT, v STRUCT<f1: STRING, f2: INT>, l ARRAY<STRUCT<f1: STRING, f2: INT>>, m MAP<INT, STRUCT<f1: STRING, f2: INT>>);
INSERT INTO t VALUES (1, named_struct('f1', 'a', 'f2', 10), array(named_struct('f1', 'b', 'f2', 20)), map(7, named_struct('f1', 'c', 'f2', 30)));

-- fixture: plain
CREATE TABLE t (a INT, b STRING, c DOUBLE);
INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', 2.5), (3, NULL, NULL);

-- fixture: keyed
CREATE TABLE t (a INT, b INT, c STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1');
INSERT INTO t VALUES (1, 10, 'c1'), (2, 20, 'c2'), (3, 30, 'c3'), (5, 50, 'c5');

-- fixture: vectors
CREATE TABLE t (a INT, b INT, c STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1', 'deletion-vectors.enabled' = 'true');
INSERT INTO t VALUES (1, 10, 'c1'), (2, 20, 'c2'), (3, 30, 'c3'), (5, 50, 'c5');

-- fixture: parted
CREATE TABLE t (id INT, pt STRING) PARTITIONED BY (pt);
INSERT INTO t VALUES (1, 'p1'), (2, 'p2');

-- fixture: hours
CREATE TABLE t (id INT, item STRING, dt STRING, hh INT) PARTITIONED BY (dt, hh) TBLPROPERTIES ('primary-key' = 'dt,hh,id', 'bucket' = '1');
INSERT INTO t VALUES (1, 'pen', '2026-03-01', 8), (2, 'ink', '2026-03-01', 9), (3, 'pad', '2026-03-02', 8);

-- fixture: pair
CREATE TABLE target (a INT, b INT, c STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1');
CREATE TABLE source (a INT, b INT, c STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1');
INSERT INTO target VALUES (1, 10, 'c1'), (2, 20, 'c2'), (3, 30, 'c3'), (5, 50, 'c5');
INSERT INTO source VALUES (1, 100, 'c11'), (3, 300, 'c3'), (5, 500, 'c0'), (7, 700, 'c7'), (9, 900, 'd9');

-- fixture: heap
CREATE TABLE target (a INT, b INT, c STRING);
CREATE TABLE source (a INT, b INT, c STRING);
INSERT INTO target VALUES (1, 10, 'c1'), (2, 20, 'c2'), (3, 30, 'c3'), (NULL, 0, 'none');
INSERT INTO source VALUES (1, 100, 'c11'), (3, 300, 'c33'), (7, 700, 'c7'), (NULL, 9, 'nil');

-- fixture: history
CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1');
INSERT INTO t VALUES (1, 'a1'), (2, 'b1');
INSERT INTO t VALUES (2, 'b2'), (3, 'c1');
DELETE FROM t WHERE k = 1;
INSERT INTO t VALUES (4, 'd1');

-- fixture: log
CREATE TABLE t (k INT, v STRING);
INSERT INTO t VALUES (1, 'a');
INSERT INTO t VALUES (2, 'b');
INSERT INTO t VALUES (3, 'c');

-- fixture: changes
CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'input');
INSERT INTO t VALUES (1, 'a1'), (2, 'b1');
INSERT INTO t VALUES (2, 'b2'), (3, 'c1');
