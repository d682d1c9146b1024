"""Transformers and other networks of the zoo on the vendor rung, on the CPU at smoke size, against float64."""

import re
from pathlib import Path

import pytest
from small_step import prove_workload
from zoo import ZOO

from tare.cases.case import Mode
from tare.records.codec import read_records
from tare.rungs.native.build import executable
from tare.workloads import get_workload

# One of each kind: encoders, decoders, both; images; a cache that is written; a scan; bags of embeddings; volumes;
# nested batches and targets; recurrent layers; messages between nodes. Most of them train with Adam.
TRAINED = (
    "hf_Bert",
    "hf_GPT2",
    "hf_T5",
    "nanogpt",
    "timm_vision_transformer",
    "dlrm",
    "hf_VideoMAE",
    "BERT_pytorch",
    "timm_convnext",
)
INFERRED = ("hf_Bart", "llama_decode", "mamba2", "sam", "moe", "demucs", "basic_gnn_sage", "hf_Segformer", "dit")


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "train") for name in TRAINED), *((name, "infer") for name in INFERRED)]
)
def test_a_network_of_the_zoo_computes_what_torch_computes(name: str, mode: Mode, tmp_path: Path) -> None:
    program = executable("tare-vendor-cpu")
    parity = prove_workload(get_workload(name), mode, "contiguous", tmp_path, program, smoke=True)
    assert parity.status == "same", parity


def test_the_document_counts_the_published_records() -> None:
    root = Path(__file__).parents[4]
    records = read_records(root / "results" / "zoo" / "vendor-smoke-infer-x86-64.json.gz")
    assert all(record.ok and record.parity.status == "same" for record in records)
    ran = {record.case.workload for record in records}
    counts = re.search(
        r"On a CPU (\d+) of the (\d+) workloads of the zoo run", (root / "docs" / "vendor.md").read_text()
    )
    assert counts is not None
    assert counts.groups() == (str(len(ran)), str(len(ran | set(ZOO))))
