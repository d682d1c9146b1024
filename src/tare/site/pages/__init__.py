"""The pages, one file a topic: each function answers one question from the store."""
