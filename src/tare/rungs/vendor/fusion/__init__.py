"""Steps of operators that no library has: core ATen becomes library calls and generated kernels."""
