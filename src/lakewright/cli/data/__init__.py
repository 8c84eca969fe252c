"""Commands that bring rows into tables and out of them."""
