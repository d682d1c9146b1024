"""Speech networks, built on torchaudio's models where they exist."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tare.workloads.networks.still import still
from tare.workloads.networks.translation import sinusoids


def _half_off(prenet: Any) -> None:
    """Turns off the prenet's dropout, which is active at inference too, so that steps are repeatable."""

    def forward(x: Any) -> Any:
        for linear in prenet.layers:
            x = torch.relu(linear(x))
        return x

    prenet.forward = forward


class _Postnet(nn.Module):
    def __init__(self, convolutions: Any) -> None:
        super().__init__()
        self.convolutions = convolutions

    def forward(self, x: Any) -> Any:
        for i, layer in enumerate(self.convolutions):
            x = torch.tanh(layer(x)) if i < len(self.convolutions) - 1 else layer(x)
        return x


class _Encoder(nn.Module):
    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.convolutions, self.lstm = encoder.convolutions, encoder.lstm

    def forward(self, x: Any, lengths: Any) -> Any:  # noqa: ARG002
        for layer in self.convolutions:
            x = torch.relu(layer(x))
        return self.lstm(x.transpose(1, 2))[0]


def tacotron(symbols: int, width: int, recurrent: int) -> Any:
    from torchaudio.models import Tacotron2

    model = Tacotron2(
        n_symbol=symbols, symbol_embedding_dim=width, encoder_embedding_dim=width, decoder_rnn_dim=recurrent,
        attention_rnn_dim=recurrent, attention_dropout=0.0, decoder_dropout=0.0, postnet_embedding_dim=width,
        prenet_dim=width // 2, attention_hidden_dim=width // 4,
    )  # fmt: skip
    _half_off(model.decoder.prenet)
    model.encoder, model.postnet = _Encoder(model.encoder), _Postnet(model.postnet.convolutions)
    # TorchScript would compile this exported method when the model is traced, and fail. It is not used here.
    model.infer = model.decoder.infer = None
    return still(model)


def wav2vec(width: int, layers: int, heads: int, letters: int) -> Any:
    from torchaudio.models import wav2vec2_model

    from tare.workloads.networks.pick import Pick

    convolutions = [(512 if width >= 512 else width, 10, 5)]
    convolutions += [(convolutions[0][0], 3, 2)] * 4 + [(convolutions[0][0], 2, 2)] * 2
    model = wav2vec2_model(
        extractor_mode="group_norm", extractor_conv_layer_config=convolutions, extractor_conv_bias=False,
        encoder_embed_dim=width, encoder_projection_dropout=0.0, encoder_pos_conv_kernel=128,
        encoder_pos_conv_groups=16, encoder_num_layers=layers, encoder_num_heads=heads,
        encoder_attention_dropout=0.0, encoder_ff_interm_features=4 * width, encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.0, encoder_layer_norm_first=False, encoder_layer_drop=0.0, aux_num_out=letters,
    )  # fmt: skip
    return Pick(still(model), 0)


class Recogniser(nn.Module):
    """A Conformer over whole utterances, and one score per letter for every frame."""

    def __init__(self, width: int, layers: int, heads: int, letters: int) -> None:
        super().__init__()
        from torchaudio.models import Conformer

        self.body = still(Conformer(width, heads, 4 * width, layers, 31))
        self.letters = nn.Linear(width, letters)

    def forward(self, x: Any) -> Any:
        lengths = torch.full((x.shape[0],), x.shape[1], device=x.device)
        return self.letters(self.body(x, lengths)[0])


class SpeechTransformer(nn.Module):
    """The output layer shares the weights of the word embedding."""

    def __init__(
        self, features: int, vocabulary: int, width: int, layers: int, heads: int, positions: int
    ) -> None:
        super().__init__()
        self.into = nn.Sequential(nn.Linear(features, width), nn.LayerNorm(width))
        self.words = nn.Embedding(vocabulary, width)
        self.scale = math.sqrt(width)
        nn.init.normal_(self.words.weight, std=1 / self.scale)
        self.register_buffer("places", sinusoids(positions, width))
        self.register_buffer("later", torch.ones(positions, positions, dtype=torch.bool).triu(1))
        self.transformer = nn.Transformer(width, heads, layers, layers, 4 * width, 0.0, batch_first=True)

    def forward(self, sound: Any, text: Any) -> Any:
        length = text.shape[1]
        source = self.into(sound) + self.places[: sound.shape[1]]
        target = self.words(text) * self.scale + self.places[:length]
        mask = self.later[:length, :length]
        decoded = self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True)
        return functional.linear(decoded, self.words.weight)


class ProjectedLstm(nn.Module):
    def __init__(self, into: int, hidden: int, out: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(into, hidden, batch_first=True)
        self.project = nn.Linear(hidden, out, bias=False)

    def forward(self, x: Any) -> Any:
        return self.project(self.lstm(x)[0])


class SpeakerEncoder(nn.Module):
    """Three LSTM layers with projections. The normalised last frame is the embedding of the speaker."""

    def __init__(self, features: int, hidden: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            ProjectedLstm(features, hidden, width), *(ProjectedLstm(width, hidden, width) for _ in range(2))
        )
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.offset = nn.Parameter(torch.tensor(-5.0))

    def forward(self, x: Any) -> Any:
        return functional.normalize(self.layers(x)[:, -1], dim=1), self.scale, self.offset
