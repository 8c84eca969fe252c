"""Create, change and query a table in SQL, in one process: DuckDB evaluates the expressions.

Run it in an empty directory: `python examples/sql.py`. On Spark the same statements run in
`lakewright.spark.SQLContext(spark, {"warehouse": "warehouse"})`.
"""

import lakewright as lw

ctx = lw.SQLContext({"warehouse": "warehouse"})
ctx.script("""
    CREATE DATABASE IF NOT EXISTS shop;
    USE shop;
    CREATE TABLE IF NOT EXISTS invoices (id BIGINT, customer STRING, price DECIMAL(10, 2), day STRING)
      PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '2');
    INSERT INTO invoices VALUES
      (1, 'Ada', 9.50, '2026-05-01'), (2, 'Bo', 3.00, '2026-05-01'), (3, 'Ada', 7.25, '2026-05-02');
""")

print(ctx.sql("UPDATE invoices SET price = price * 2 WHERE customer = :who", args={"who": "Ada"}).to_pylist())
ctx.sql("""
    MERGE INTO invoices t
    USING (SELECT 2L AS id, '2026-05-01' AS day UNION ALL SELECT 4L, '2026-05-02') s
    ON t.id = s.id AND t.day = s.day
    WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED THEN INSERT (id, customer, price, day) VALUES (s.id, 'Cy', 1.00, s.day)
""")

print("\nTurnover of each customer:")
totals = ctx.sql("SELECT customer, sum(price) AS total FROM invoices GROUP BY customer ORDER BY customer")
for row in totals.to_pylist():
    print(f"{row['customer']:<4} {row['total']:>6}")

print("\nPrices now and in snapshot 1:")
joined = ctx.sql("""
    SELECT n.id, o.price AS was, n.price AS now
    FROM invoices n JOIN invoices VERSION AS OF 1 o ON n.id = o.id ORDER BY n.id
""")
for row in joined.to_pylist():
    print(f"{row['id']:<4} {row['was']:>6} {row['now']:>6}")
