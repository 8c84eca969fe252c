"""Many processes at once on the same tables, with kills, stops, wrong clocks and faulty stores; see `test_chaos.py`."""
