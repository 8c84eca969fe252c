"""lakewright."""
