"""Where records are kept, found again, and turned into other formats."""
