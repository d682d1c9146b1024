"""JAX: networks of the zoo written in plain JAX, compiled by XLA or run op by op."""
