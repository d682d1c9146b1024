"""The site of a store: its pages, its interface for uploads, and who may do what."""
