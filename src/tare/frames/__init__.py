"""Call depth: the frames between the user's call and the vendor library, and what that depth costs."""
