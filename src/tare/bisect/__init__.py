"""Which change did it: versions, commits or labels, built apart, measured where it helps most, journalled."""
