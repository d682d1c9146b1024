"""The C++ rungs: sources, and what builds them on first use."""
