"""Tests of JAX on the CPU and on CUDA in one process, where a measured process opens one kind of device."""


def forget_devices() -> None:
    """The next use of JAX opens its devices anew, of the platform that is set then."""
    import jax
    from jax.extend.backend import clear_backends

    jax.config.update("jax_default_device", None)
    clear_backends()
