"""What parent and worker say to each other: one JSON job in, JSON lines out (docs/protocol.md)."""
