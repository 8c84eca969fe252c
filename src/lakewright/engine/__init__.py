"""The interface of execution engines, the life of a job, and the local engine."""
