"""A staged plan as a CMake project that a person can read: `tare emit`."""
