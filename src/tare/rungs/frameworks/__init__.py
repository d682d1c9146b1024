"""Rungs outside PyTorch: the weights and batches of the torch model, computed with by another framework."""
