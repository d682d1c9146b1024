"""The rungs that run LibTorch from C++."""
