"""SQL databases that hold the names of a catalog: addresses and statements in, rows, locks and homes of tables out."""
