"""A small image classifier."""
