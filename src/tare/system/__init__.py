"""The operating system: processes, locks, the home folder, scratch files, plug-ins. Used by every other folder."""
