"""Language models written here: nanoGPT, two BERT tasks, the original Transformer, Mamba-2."""

from typing import Any

from tare.workloads.base import Batch, Size
from tare.workloads.kinds import LanguageModel, Translator
from tare.workloads.registry import workload

# The maximum length is the number of position embeddings in networks/bert.py.
BERT: dict[str, int | Size] = {
    "vocabulary": 30522,
    "width": 768,
    "layers": 12,
    "heads": 12,
    "length": Size(128, maximum=512),
}
SMOKE = {"batch": 2, "vocabulary": 211, "width": 64, "layers": 2, "heads": 4, "length": 16}


@workload(
    "nanogpt",
    domain="nlp",
    task="language modelling",
    source="written here; Radford et al., GPT-2 (2019), as in Karpathy's nanoGPT",
    differs="no dropout",
    batch=4,
    sizes={"vocabulary": 50304, "width": 768, "layers": 12, "heads": 12, "length": 1024},
    smoke=SMOKE,
    tokens="length",
    optimizer="adamw",
)
class NanoGpt(LanguageModel):
    def build(self, vocabulary: int, width: int, layers: int, heads: int, length: int) -> Any:
        from tare.workloads.networks.gpt import Gpt

        return Gpt(vocabulary, width, layers, heads, length)


@workload(
    "mamba2",
    domain="nlp",
    task="language modelling",
    source="written here; Dao and Gu, Mamba-2 (2024), 130M",
    differs="the chunked algorithm in plain operators, without a fused kernel",
    batch=4,
    sizes={"vocabulary": 50288, "width": 768, "layers": 24, "state": 128, "head": 64, "chunk": 64, "length": 512},
    smoke={
        "batch": 2, "vocabulary": 211, "width": 32, "layers": 2, "state": 16, "head": 16, "chunk": 8, "length": 32,
    },
    tokens="length",
    optimizer="adamw",
)  # fmt: skip
class Mamba2(LanguageModel):
    def build(self, vocabulary: int, width: int, layers: int, state: int, head: int, chunk: int, **_: int) -> Any:
        from tare.workloads.networks.mamba import Mamba

        return Mamba(vocabulary, width, layers, state, head, chunk)


class Segmented:
    """Texts of two sentences, with segment indices that mark the second."""

    def texts(self, batch: int, length: int, vocabulary: int) -> tuple[Any, Any]:
        import torch

        return torch.randint(vocabulary, (batch, length)), (torch.arange(length) >= length // 2).long().expand(
            batch, length
        ).contiguous()


@workload(
    "BERT_pytorch",
    domain="nlp",
    task="language modelling",
    source="written here on torch.nn.TransformerEncoder; Devlin et al., BERT (2018), pre-norm as in codertimo's "
    "implementation",
    differs="no dropout",
    batch=16,
    sizes=BERT,
    smoke=SMOKE,
    tokens="length",
    optimizer="adamw",
)
class BertPretraining(Segmented):
    def build(self, vocabulary: int, width: int, layers: int, heads: int, **_: int) -> Any:
        from tare.workloads.networks.bert import Pretraining

        return Pretraining(vocabulary, width, layers, heads)

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        words = torch.randint(vocabulary, (batch, length))
        # About one word in seven is predicted (cross_entropy ignores -100), and at least one in every text.
        words[torch.rand(batch, length) > 1 / 7] = -100
        words[:, 1] = 1
        return Batch(self.texts(batch, length, vocabulary), (words, torch.randint(2, (batch,))))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        word_loss = functional.cross_entropy(output[0].flatten(0, 1), target[0].flatten())
        return word_loss + functional.cross_entropy(output[1], target[1])


@workload(
    "fastNLP_Bert",
    domain="nlp",
    task="reading comprehension",
    source="written here on torch.nn.TransformerEncoder; Devlin et al., BERT (2018), spans as on CMRC2018",
    differs="no dropout",
    batch=8,
    sizes={**BERT, "vocabulary": 21128, "length": Size(512, maximum=512)},
    smoke=SMOKE,
    tokens="length",
    optimizer="adamw",
)
class BertSpan(Segmented):
    def build(self, vocabulary: int, width: int, layers: int, heads: int, **_: int) -> Any:
        from tare.workloads.networks.bert import Span

        return Span(vocabulary, width, layers, heads)

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        return Batch(self.texts(batch, length, vocabulary), torch.randint(length, (2, batch)))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(output[0], target[0]) + functional.cross_entropy(output[1], target[1])


@workload(
    "attention_is_all_you_need_pytorch",
    domain="nlp",
    task="translation",
    source="written here on torch.nn.Transformer; Vaswani et al., Attention Is All You Need (2017), base",
    differs="no dropout; sequences have no padding",
    batch=64,
    sizes={"vocabulary": 9521, "width": 512, "layers": 6, "heads": 8, "length": 32},
    smoke=SMOKE,
    tokens="length",
    optimizer="adam",
)
class FirstTransformer(Translator):
    def build(self, vocabulary: int, width: int, layers: int, heads: int, length: int) -> Any:
        from tare.workloads.networks.translation import Translation

        return Translation(vocabulary, width, layers, heads, length)
