"""Greedy generation of a fixed number of tokens with transformers' own loop and its cache of keys and values.

Returns the text and the scores of its last token.
"""

from typing import Any

from torch import nn


class Generate(nn.Module):
    def __init__(self, model: Any, written: int) -> None:
        super().__init__()
        self.model = model
        self.written = written

    def forward(self, tokens: Any) -> Any:
        output = self.model.generate(
            input_ids=tokens,
            attention_mask=tokens.new_ones(tokens.shape),
            max_new_tokens=self.written,
            min_new_tokens=self.written,
            do_sample=False,
            use_cache=True,
            output_logits=True,
            return_dict_in_generate=True,
        )
        return output.sequences, output.logits[-1]
