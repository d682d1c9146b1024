"""A profiler's trace: read into tables, and what follows from it. Never a time of its own, only shares of one."""
