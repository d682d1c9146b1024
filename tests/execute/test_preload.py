"""What the fork server imports for a plan: what its workloads share, and nothing that changes a measurement."""

from tare.execute.preload import BEHIND, OPTIMIZERS, preload


def test_packages_come_with_the_modules_behind_them() -> None:
    modules = preload(["hf_Bert", "resnet50", "mlp"], ["infer"], ["eager"])
    assert {"torchvision", "transformers", *BEHIND["transformers"], "tare.workloads.resnet"} <= set(modules)
    assert OPTIMIZERS not in modules


def test_a_compiler_imports_its_parts_itself() -> None:
    assert OPTIMIZERS in preload(["mlp"], ["infer", "train"], ["eager"])
    assert OPTIMIZERS not in preload(["mlp"], ["train"], ["eager", "compile"])
    assert OPTIMIZERS not in preload(["mlp"], ["infer"], ["eager"])
