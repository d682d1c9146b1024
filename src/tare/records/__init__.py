"""The result of a case as a typed, versioned document."""
