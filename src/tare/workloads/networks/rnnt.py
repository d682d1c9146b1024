"""A recurrent transducer (Graves, 2012) in the shape of MLPerf's: an encoder of two layers, pairs of frames
joined, and three layers; a prediction network of two layers; a joint network over every pair of frame and word."""

from typing import Any

import torch
from torch import nn


class Transducer(nn.Module):
    def __init__(self, features: int, vocabulary: int, encoder: int, prediction: int, joint: int) -> None:
        super().__init__()
        self.before = nn.LSTM(features, encoder, 2, batch_first=True)
        self.after = nn.LSTM(2 * encoder, encoder, 3, batch_first=True)
        self.words = nn.Embedding(vocabulary, prediction)
        self.predict = nn.LSTM(prediction, prediction, 2, batch_first=True)
        self.sound, self.text = nn.Linear(encoder, joint), nn.Linear(prediction, joint)
        self.out = nn.Linear(joint, vocabulary)
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)  # random biases would be louder than the frames

    def forward(self, frames: Any, words: Any) -> Any:
        encoded = self.before(frames)[0]
        batch, length, width = encoded.shape
        encoded = self.after(encoded.reshape(batch, length // 2, 2 * width))[0]
        start = words.new_zeros(batch, 1)
        predicted = self.predict(self.words(torch.cat([start, words], dim=1)))[0]
        return self.out(torch.relu(self.sound(encoded)[:, :, None] + self.text(predicted)[:, None]))
