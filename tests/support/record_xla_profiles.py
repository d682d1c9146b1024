"""Records the profiles of JAX and TensorFlow in tests/trace/recorded/xla, on the CPU.

python tests/support/record_xla_profiles.py jax FOLDER; the same with `tensorflow` by an interpreter that has it.
The compiled programs are left out of the profile: nothing reads them, and they are most of it.
"""

import gzip
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = 4
PROGRAMS = b"/host:metadata"


def record_jax(folder: str) -> None:
    import jax
    import jax.numpy as jnp

    @jax.jit  # type: ignore[untyped-decorator, unused-ignore]
    def train(weights: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            return ((jnp.tanh(x @ weights[0]) @ weights[1]) ** 2).mean()

        return [weight - 0.1 * change for weight, change in zip(weights, jax.grad(loss)(weights), strict=True)]

    key = jax.random.PRNGKey(0)
    weights = [jax.random.normal(key, (256, 256)), jax.random.normal(key, (256, 64))]
    x = jax.random.normal(key, (128, 256))
    for _ in range(3):
        weights = jax.block_until_ready(train(weights, x))
    jax.profiler.start_trace(folder)
    for number in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            weights = jax.block_until_ready(train(weights, x))
    jax.profiler.stop_trace()


def record_tensorflow(folder: str) -> None:
    import tensorflow as tf

    first, second = (tf.Variable(tf.random.normal(shape)) for shape in ((256, 256), (256, 64)))
    x = tf.random.normal((128, 256))

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ first) @ second) ** 2)
        for weight, change in zip((first, second), tape.gradient(loss, (first, second)), strict=True):
            weight.assign_sub(0.1 * change)
        return loss

    for _ in range(3):
        train()
    tf.profiler.experimental.start(folder)
    for number in range(STEPS):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            train().numpy()
    tf.profiler.experimental.stop()


def without_programs(data: bytes) -> bytes:
    from tare.system.protobuf import LENGTH, fields, key, varint

    kept, at = [], 0
    for field, _, (begin, end) in fields(data, (0, len(data))):
        assert varint(data, at, len(data))[0] == field
        if field != key(1, LENGTH) or PROGRAMS not in data[begin : begin + 40]:
            kept.append(data[at:end])
        at = end
    return b"".join(kept)


def main(framework: str, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        {"jax": record_jax, "tensorflow": record_tensorflow}[framework](folder)
        (profile,) = Path(folder).rglob("*.xplane.pb")
        packed = gzip.compress(without_programs(profile.read_bytes()), mtime=0)
        (target / f"{framework}-cpu.xplane.pb.gz").write_bytes(packed)
        for chrome in Path(folder).rglob("*.trace.json.gz"):
            shutil.copyfile(chrome, target / f"{framework}-cpu.trace.json.gz")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
