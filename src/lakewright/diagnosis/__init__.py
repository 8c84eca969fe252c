"""Diagnosis: this environment, a warehouse and the workers of Spark in; checks, each with what to do, out."""
