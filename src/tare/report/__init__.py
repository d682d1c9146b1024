"""Turning records into what a person reads. A report never measures."""
