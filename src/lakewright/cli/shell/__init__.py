"""`lakewright sql`: statements, scripts and the prompt."""
