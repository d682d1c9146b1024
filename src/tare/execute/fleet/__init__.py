"""A plan over the machines of a cluster: the driver, the program of a node, and what they say to each other."""
