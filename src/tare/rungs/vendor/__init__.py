"""The vendor rung: a workload lowered to a static plan of library calls, run by a C++ program."""
