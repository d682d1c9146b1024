"""Running cases in fresh processes: the worker protocol, the processes, the parent that watches them."""
