"""The rungs that run in PyTorch, in Python."""
