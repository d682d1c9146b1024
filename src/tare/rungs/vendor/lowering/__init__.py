"""From a torch module to a static step: calls on tensors at fixed places in memory, for the vendor rung."""
