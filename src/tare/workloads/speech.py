"""Speech recognition, synthesis and speaker verification: models of torchaudio, and models written here."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import Translator, ctc, single
from tare.workloads.registry import workload


@workload(
    "tacotron2",
    domain="speech",
    task="synthesis",
    source="torchaudio.models.Tacotron2; Shen et al., Natural TTS Synthesis (2017)",
    differs="no dropout, not even where the paper keeps it at inference; inference also receives the target "
    "spectrogram; all texts of a batch have the same length",
    batch=32,
    sizes={"length": 128, "frames": 400, "symbols": 148, "width": 512, "recurrent": 1024},
    smoke={"batch": 2, "length": 10, "frames": 12, "symbols": 30, "width": 32, "recurrent": 32},
    requires=("torchaudio",),
    optimizer="adam",
)
class Tacotron:
    def build(self, symbols: int, width: int, recurrent: int, **_: int) -> Any:
        from tare.workloads.networks.speech import tacotron

        return tacotron(symbols, width, recurrent)

    def inputs(self, batch: int, length: int, frames: int, symbols: int, **_: int) -> Batch:
        import torch

        spectrogram = torch.randn(batch, 80, frames)
        ends = torch.zeros(batch, frames)
        ends[:, -1] = 1.0
        lengths = torch.full((batch,), length), torch.full((batch,), frames)
        tokens = torch.randint(symbols, (batch, length))
        return Batch((tokens, lengths[0], spectrogram, lengths[1]), (spectrogram, ends))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        before, after, stop = output[:3]
        spectrogram, ends = target
        gate = functional.binary_cross_entropy_with_logits(stop, ends)
        return functional.mse_loss(before, spectrogram) + functional.mse_loss(after, spectrogram) + gate


@workload(
    "wav2vec2",
    domain="speech",
    task="recognition",
    source="torchaudio.models.wav2vec2_model; Baevski et al., wav2vec 2.0 (2020), base, fine-tuned with CTC",
    differs="no dropout, layer drop or masking",
    batch=4,
    sizes={"samples": 160000, "width": 768, "layers": 12, "heads": 12, "letters": 32},
    smoke={"batch": 2, "samples": 8000, "width": 32, "layers": 2, "heads": 4, "letters": 10},
    requires=("torchaudio",),
    optimizer="adamw",
)
class Wav2Vec:
    LETTERS = 8

    def build(self, width: int, layers: int, heads: int, letters: int, **_: int) -> Any:
        from tare.workloads.networks.speech import wav2vec

        return wav2vec(width, layers, heads, letters)

    def inputs(self, batch: int, samples: int, letters: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, samples),), torch.randint(1, letters, (batch, self.LETTERS)))

    def loss(self, output: Any, target: Any) -> Any:
        return ctc(output, target)


@workload(
    "conformer",
    domain="speech",
    task="recognition",
    source="torchaudio.models.Conformer; Gulati et al., Conformer (2020), medium, with CTC",
    differs="no dropout; inputs are already subsampled; no relative positional encoding; a linear layer instead "
    "of the LSTM decoder: 24.6 instead of 30.7 million parameters",
    batch=8,
    sizes={"frames": 400, "width": 256, "layers": 16, "heads": 4, "letters": 1024},
    smoke={"batch": 2, "frames": 20, "width": 32, "layers": 2, "letters": 10},
    requires=("torchaudio",),
    optimizer="adamw",
)
class Conformer(Wav2Vec):
    def build(self, width: int, layers: int, heads: int, letters: int, **_: int) -> Any:
        from tare.workloads.networks.speech import Recogniser

        return Recogniser(width, layers, heads, letters)

    def inputs(self, batch: int, frames: int, width: int, letters: int, **_: int) -> Batch:  # type: ignore[override]
        import torch

        return Batch((torch.randn(batch, frames, width),), torch.randint(1, letters, (batch, self.LETTERS)))


@workload(
    "rnnt",
    domain="speech",
    task="recognition",
    source="written here in the sizes of MLPerf's RNN-T; Graves, Sequence Transduction (2012)",
    differs="no dropout; biases are initialised to zero; all texts of a batch have the same length; the blank "
    "is token 0; the transducer loss is computed by torch operators, one position of the text at a time "
    "(torchaudio's kernel supports only float32)",
    batch=16,
    sizes={"frames": 400, "length": 40, "vocabulary": 1024, "encoder": 1024, "prediction": 512, "joint": 512},
    smoke={
        "batch": 2, "frames": 12, "length": 4, "vocabulary": 20, "encoder": 24, "prediction": 16, "joint": 16,
    },
    groups=("mlperf",),
)  # fmt: skip
class RnnTransducer:
    FEATURES = 240

    def build(self, vocabulary: int, encoder: int, prediction: int, joint: int, **_: int) -> Any:
        from tare.workloads.networks.rnnt import Transducer

        return Transducer(self.FEATURES, vocabulary, encoder, prediction, joint)

    def inputs(self, batch: int, frames: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        words = torch.randint(1, vocabulary, (batch, length))
        return Batch((torch.randn(batch, frames, self.FEATURES), words), words)

    def loss(self, output: Any, target: Any) -> Any:
        from tare.workloads.networks.transducer_loss import transducer_loss

        return transducer_loss(single(output), target)


@workload(
    "speech_transformer",
    domain="speech",
    task="recognition",
    source="written here on torch.nn.Transformer; Dong et al., Speech-Transformer (2018), as in kaituoxu's "
    "implementation",
    differs="no dropout; no padding",
    batch=16,
    sizes={"frames": 400, "length": 24, "vocabulary": 4233, "width": 512, "layers": 6, "heads": 8},
    smoke={
        "batch": 2, "frames": 12, "length": 6, "vocabulary": 30, "width": 32, "layers": 1, "heads": 4,
    },
    optimizer="adam",
)  # fmt: skip
class SpeechTransformer(Translator):
    FEATURES = 320

    def build(self, vocabulary: int, width: int, layers: int, heads: int, frames: int, length: int) -> Any:
        from tare.workloads.networks.speech import SpeechTransformer

        return SpeechTransformer(self.FEATURES, vocabulary, width, layers, heads, max(frames, length))

    def inputs(self, batch: int, length: int, vocabulary: int, frames: int = 0, **_: int) -> Batch:
        import torch

        translation = super().inputs(batch, length, vocabulary)
        return Batch((torch.randn(batch, frames, self.FEATURES), translation.args[1]), translation.target)


@workload(
    "tts_angular",
    domain="speech",
    task="speaker verification",
    source="written here; Wan et al., Generalized End-to-End Loss (2017), as in Mozilla's TTS, with the angular "
    "prototypical loss of Chung et al. (2020)",
    batch=64,
    sizes={"frames": 50, "features": 40, "hidden": 768, "width": 256},
    smoke={"batch": 8, "frames": 6, "features": 20, "hidden": 24, "width": 16},
)
class SpeakerEncoder:
    UTTERANCES = 2

    def build(self, features: int, hidden: int, width: int, **_: int) -> Any:
        from tare.workloads.networks.speech import SpeakerEncoder

        return SpeakerEncoder(features, hidden, width)

    def inputs(self, batch: int, frames: int, features: int, **_: int) -> Batch:
        import torch

        speakers = max(batch // self.UTTERANCES, 1)
        return Batch((torch.randn(batch, frames, features),), torch.arange(speakers))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        embeddings, scale, offset = output
        first, second = embeddings[: len(target)], embeddings[-len(target) :]
        return functional.cross_entropy(first @ second.t() * scale + offset, target)
