"""Scenarios: the file format, reading and resolving it, building a simulation from it, and running that."""
