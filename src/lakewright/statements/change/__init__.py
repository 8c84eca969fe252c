"""Changes of rows: UPDATE, DELETE and MERGE in, one query that an engine evaluates and what its rows mean out."""
