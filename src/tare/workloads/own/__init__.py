"""Models of a user: from a file, by the name in a package, exported, or an object of the user's program."""
