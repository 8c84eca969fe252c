"""Twenty-two questions to the tables of `shop_tables`, of the shape of the queries of TPC-H, in our own words.

They join up to eight tables and use correlated subqueries, EXISTS, IN, CASE, HAVING, intervals of dates, substrings,
outer joins and a common table expression. Each gives its rows in an order that leaves no choice.
"""

# ruff: noqa: S608 - the statements are our own
from __future__ import annotations

_REVENUE = "sum(l_price * (1 - l_discount))"

QUERIES = {
    "price summary": """
        SELECT l_returned, l_status, sum(l_quantity) AS quantity, sum(l_price) AS gross,
               sum(l_price * (1 - l_discount)) AS net, sum(l_price * (1 - l_discount) * (1 + l_tax)) AS charged,
               avg(l_quantity) AS mean_quantity, avg(l_price) AS mean_price, avg(l_discount) AS mean_discount,
               count(*) AS items
        FROM shop.item
        WHERE l_shipped <= DATE'1998-12-01' - INTERVAL 100 DAYS
        GROUP BY l_returned, l_status
        ORDER BY l_returned, l_status""",
    "cheapest supplier": """
        SELECT s_balance, s_name, n_name, p_id, p_maker, s_phone
        FROM shop.part, shop.supplier, shop.supply, shop.nation, shop.region
        WHERE p_id = ps_part AND s_id = ps_supplier AND s_nation = n_id AND n_region = r_id AND r_name = 'ASIA'
          AND p_size < 20 AND p_type LIKE '%BRASS'
          AND ps_cost = (SELECT min(ps_cost)
                         FROM shop.supply, shop.supplier, shop.nation, shop.region
                         WHERE p_id = ps_part AND s_id = ps_supplier AND s_nation = n_id AND n_region = r_id
                           AND r_name = 'ASIA')
        ORDER BY s_balance DESC, n_name, s_name, p_id
        LIMIT 100""",
    "largest open orders": f"""
        SELECT l_order, {_REVENUE} AS revenue, o_date
        FROM shop.customer JOIN shop.orders ON c_id = o_customer JOIN shop.item ON l_order = o_id
        WHERE c_segment = 'MACHINERY' AND o_date < DATE'1995-03-20' AND l_shipped > DATE'1995-03-20'
        GROUP BY l_order, o_date
        ORDER BY revenue DESC, o_date, l_order
        LIMIT 10""",
    "late orders by priority": """
        SELECT o_priority, count(*) AS orders
        FROM shop.orders
        WHERE o_date >= DATE'1994-04-01' AND o_date < DATE'1994-04-01' + INTERVAL 3 MONTHS
          AND EXISTS (SELECT * FROM shop.item WHERE l_order = o_id AND l_promised < l_received)
        GROUP BY o_priority
        ORDER BY o_priority""",
    "local suppliers": f"""
        SELECT n_name, {_REVENUE} AS revenue
        FROM shop.customer, shop.orders, shop.item, shop.supplier, shop.nation, shop.region
        WHERE c_id = o_customer AND l_order = o_id AND l_supplier = s_id AND c_nation = s_nation AND s_nation = n_id
          AND n_region = r_id AND r_name = 'EUROPE' AND o_date >= DATE'1993-01-01' AND o_date < DATE'1996-01-01'
        GROUP BY n_name
        ORDER BY revenue DESC, n_name""",
    "revenue of small discounts": """
        SELECT sum(l_price * l_discount) AS revenue
        FROM shop.item
        WHERE l_shipped >= DATE'1995-01-01' AND l_shipped < DATE'1995-01-01' + INTERVAL 1 YEAR
          AND l_discount BETWEEN 0.05 - 0.01 AND 0.05 + 0.01 AND l_quantity < 25""",
    "trade of two nations": """
        SELECT seller, buyer, year, sum(volume) AS revenue
        FROM (SELECT a.n_name AS seller, b.n_name AS buyer, year(l_shipped) AS year,
                     l_price * (1 - l_discount) AS volume
              FROM shop.supplier, shop.item, shop.orders, shop.customer, shop.nation a, shop.nation b
              WHERE s_id = l_supplier AND o_id = l_order AND c_id = o_customer AND s_nation = a.n_id
                AND c_nation = b.n_id
                AND ((a.n_name = 'KENYA' AND b.n_name = 'JAPAN') OR (a.n_name = 'JAPAN' AND b.n_name = 'KENYA'))
                AND l_shipped BETWEEN DATE'1994-01-01' AND DATE'1997-12-31') AS shipping
        GROUP BY seller, buyer, year
        ORDER BY seller, buyer, year""",
    "market share": """
        SELECT year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS share
        FROM (SELECT year(o_date) AS year, l_price * (1 - l_discount) AS volume, b.n_name AS nation
              FROM shop.part, shop.supplier, shop.item, shop.orders, shop.customer, shop.nation a, shop.nation b,
                   shop.region
              WHERE p_id = l_part AND s_id = l_supplier AND l_order = o_id AND o_customer = c_id AND c_nation = a.n_id
                AND a.n_region = r_id AND r_name = 'AMERICA' AND s_nation = b.n_id
                AND o_date BETWEEN DATE'1995-01-01' AND DATE'1996-12-31' AND p_type LIKE 'ECONOMY%') AS every_nation
        GROUP BY year
        ORDER BY year""",
    "profit by colour": """
        SELECT nation, year, sum(amount) AS profit
        FROM (SELECT n_name AS nation, extract(YEAR FROM o_date) AS year,
                     l_price * (1 - l_discount) - ps_cost * l_quantity AS amount
              FROM shop.part, shop.supplier, shop.item, shop.supply, shop.orders, shop.nation
              WHERE s_id = l_supplier AND ps_supplier = l_supplier AND ps_part = l_part AND p_id = l_part
                AND o_id = l_order AND s_nation = n_id AND p_name LIKE '%green%') AS profits
        GROUP BY nation, year
        ORDER BY nation, year DESC""",
    "customers who return": f"""
        SELECT c_id, c_name, {_REVENUE} AS lost, c_balance, n_name, c_address, c_phone
        FROM shop.customer, shop.orders, shop.item, shop.nation
        WHERE c_id = o_customer AND l_order = o_id AND c_nation = n_id AND l_returned = 'R'
          AND o_date >= DATE'1993-07-01' AND o_date < DATE'1993-07-01' + INTERVAL 3 MONTHS
        GROUP BY c_id, c_name, c_balance, c_phone, n_name, c_address
        ORDER BY lost DESC, c_id
        LIMIT 20""",
    "important stock": """
        SELECT ps_part, sum(ps_cost * ps_available) AS value
        FROM shop.supply, shop.supplier, shop.nation
        WHERE ps_supplier = s_id AND s_nation = n_id AND n_name IN ('INDIA', 'PERU', 'EGYPT')
        GROUP BY ps_part
        HAVING sum(ps_cost * ps_available) > (
            SELECT sum(ps_cost * ps_available) * 0.005
            FROM shop.supply, shop.supplier, shop.nation
            WHERE ps_supplier = s_id AND s_nation = n_id AND n_name IN ('INDIA', 'PERU', 'EGYPT'))
        ORDER BY value DESC, ps_part""",
    "shipping modes": """
        SELECT l_mode,
               sum(CASE WHEN o_priority = '1-URGENT' OR o_priority = '2-HIGH' THEN 1 ELSE 0 END) AS high,
               sum(CASE WHEN o_priority <> '1-URGENT' AND o_priority <> '2-HIGH' THEN 1 ELSE 0 END) AS low
        FROM shop.orders, shop.item
        WHERE o_id = l_order AND l_mode IN ('RAIL', 'TRUCK') AND l_promised < l_received AND l_shipped < l_promised
          AND l_received >= DATE'1994-01-01' AND l_received < DATE'1995-01-01'
        GROUP BY l_mode
        ORDER BY l_mode""",
    "orders per customer": """
        SELECT orders, count(*) AS customers
        FROM (SELECT c_id, count(o_id) AS orders
              FROM shop.customer LEFT OUTER JOIN shop.orders
                ON c_id = o_customer AND o_note NOT LIKE '%special%requests%'
              GROUP BY c_id) AS counted
        GROUP BY orders
        ORDER BY customers DESC, orders DESC""",
    "effect of promotions": """
        SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_price * (1 - l_discount) ELSE 0 END)
               / sum(l_price * (1 - l_discount)) AS share
        FROM shop.item, shop.part
        WHERE l_part = p_id AND l_shipped >= DATE'1996-02-01' AND l_shipped < DATE'1996-02-01' + INTERVAL 1 MONTH""",
    "best supplier": f"""
        WITH earned AS (
            SELECT l_supplier AS supplier, {_REVENUE} AS revenue
            FROM shop.item
            WHERE l_shipped >= DATE'1997-01-01' AND l_shipped < DATE'1997-01-01' + INTERVAL 3 MONTHS
            GROUP BY l_supplier)
        SELECT s_id, s_name, s_address, s_phone, revenue
        FROM shop.supplier JOIN earned ON s_id = supplier
        WHERE revenue = (SELECT max(revenue) FROM earned)
        ORDER BY s_id""",
    "suppliers of parts": """
        SELECT p_brand, p_type, p_size, count(DISTINCT ps_supplier) AS suppliers
        FROM shop.supply, shop.part
        WHERE p_id = ps_part AND p_brand <> 'Brand#32' AND p_type NOT LIKE 'MEDIUM PLATED%'
          AND p_size IN (3, 9, 14, 19, 23, 36, 45, 49)
          AND ps_supplier NOT IN (SELECT s_id FROM shop.supplier WHERE s_note LIKE '%customer%complaints%')
        GROUP BY p_brand, p_type, p_size
        ORDER BY suppliers DESC, p_brand, p_type, p_size""",
    "small quantities": """
        SELECT sum(l_price) / 7.0 AS yearly
        FROM shop.item, shop.part
        WHERE p_id = l_part AND p_brand LIKE 'Brand#2%' AND p_container LIKE 'MED%'
          AND l_quantity < (SELECT 0.4 * avg(l_quantity) FROM shop.item WHERE l_part = p_id)""",
    "large orders": """
        SELECT c_name, c_id, o_id, o_date, o_total, sum(l_quantity) AS quantity
        FROM shop.customer, shop.orders, shop.item
        WHERE o_id IN (SELECT l_order FROM shop.item GROUP BY l_order HAVING sum(l_quantity) > 240)
          AND c_id = o_customer AND o_id = l_order
        GROUP BY c_name, c_id, o_id, o_date, o_total
        ORDER BY o_total DESC, o_date, o_id
        LIMIT 100""",
    "discounts of some parts": f"""
        SELECT {_REVENUE} AS revenue
        FROM shop.item, shop.part
        WHERE (p_id = l_part AND p_brand = 'Brand#21' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
               AND l_quantity BETWEEN 1 AND 31 AND p_size BETWEEN 1 AND 25 AND l_mode IN ('AIR', 'AIR REG')
               AND l_instruction = 'IN PERSON')
           OR (p_id = l_part AND p_brand LIKE 'Brand#1%' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG')
               AND l_quantity BETWEEN 10 AND 40 AND p_size BETWEEN 1 AND 30 AND l_mode IN ('AIR', 'AIR REG')
               AND l_instruction = 'IN PERSON')
           OR (p_id = l_part AND p_brand LIKE 'Brand#5%' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK')
               AND l_quantity BETWEEN 20 AND 50 AND p_size BETWEEN 1 AND 50 AND l_mode IN ('AIR', 'AIR REG')
               AND l_instruction = 'IN PERSON')""",
    "too much stock": """
        SELECT s_name, s_address
        FROM shop.supplier, shop.nation
        WHERE s_id IN (SELECT ps_supplier
                       FROM shop.supply
                       WHERE ps_part IN (SELECT p_id FROM shop.part WHERE p_name LIKE 'a%')
                         AND ps_available > (SELECT 0.5 * sum(l_quantity)
                                             FROM shop.item
                                             WHERE l_part = ps_part AND l_supplier = ps_supplier
                                               AND l_shipped >= DATE'1994-01-01'
                                               AND l_shipped < DATE'1994-01-01' + INTERVAL 1 YEAR))
          AND s_nation = n_id AND n_region IN (0, 2)
        ORDER BY s_name""",
    "suppliers who are late": """
        SELECT s_name, count(*) AS waits
        FROM shop.supplier, shop.item l1, shop.orders, shop.nation
        WHERE s_id = l1.l_supplier AND o_id = l1.l_order AND o_status = 'F' AND l1.l_received > l1.l_promised
          AND EXISTS (SELECT * FROM shop.item l2
                      WHERE l2.l_order = l1.l_order AND l2.l_supplier <> l1.l_supplier)
          AND NOT EXISTS (SELECT * FROM shop.item l3
                          WHERE l3.l_order = l1.l_order AND l3.l_supplier <> l1.l_supplier
                            AND l3.l_received > l3.l_promised)
          AND s_nation = n_id AND n_region = 4
        GROUP BY s_name
        ORDER BY waits DESC, s_name
        LIMIT 100""",
    "customers to win": """
        SELECT code, count(*) AS customers, sum(c_balance) AS balance
        FROM (SELECT substring(c_phone, 1, 2) AS code, c_balance
              FROM shop.customer
              WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
                AND c_balance > (SELECT avg(c_balance) FROM shop.customer
                                 WHERE c_balance > 0.00
                                   AND substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
                AND NOT EXISTS (SELECT * FROM shop.orders WHERE o_customer = c_id)) AS asleep
        GROUP BY code
        ORDER BY code""",
}
