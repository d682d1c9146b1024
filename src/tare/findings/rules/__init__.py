"""The rules: a function each, and a file for those that share their search."""
