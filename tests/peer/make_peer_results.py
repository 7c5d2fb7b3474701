#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/peer_results.safetensors: what PyTorch and JAX compute for small cases of every rule they share with dhyan.

  bench/peers/setup && .venv-peers/bin/python tests/peer/make_peer_results.py tests/data/peer_results.safetensors

Inputs are numbers that bf16 holds exactly, so that one set serves every element type; results are the peer's own in the type
the case names: float64 for most of PyTorch's, float32 for JAX's, whose softmax is never wider. Metadata `cases` is a JSON list of {name, peer, dtype, options, tensors}; tensor X of a case is
stored as NAME/X under dhyan's names and shapes. Rows where a peer has another rule than dhyan are not stored: see README.md.
"""
import json
import math
import os
import sys
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile.*")
warnings.filterwarnings("ignore", message="Lower right causal bias will produce NaNs.*")  # not since its softmax became safe

TORCH = torch.__version__.split("+")[0]
CASES, TENSORS = [], {}


class Case:
    """One case: draws inputs (BTNH), holds options and tensors under dhyan's names."""

    def __init__(self, name, peer, dtype="f64", **options):
        self.name, self.peer, self.dtype, self.options = name, peer, dtype, options
        self.type = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
        self.tensors = {}
        self.generator = torch.Generator().manual_seed(len(CASES) + 1)

    def draw(self, name, *shape, size=1.0):
        x = (torch.randn(shape, generator=self.generator) * size).to(torch.bfloat16)
        self.tensors[name] = x
        return x.to(self.type)

    def draw_f32(self, name, *shape):  # per-head numbers, which dhyan takes as f32 whatever the inputs are
        return self.draw(name, *shape).to(torch.float64), self.put(name, self.tensors[name].to(torch.float32))

    def put(self, name, tensor):
        self.tensors[name] = tensor.detach()
        return tensor

    def save(self):
        for name, x in self.tensors.items():
            TENSORS[f"{self.name}/{name}"] = x.detach().contiguous().clone()
        entry = {"name": self.name, "peer": self.peer, "dtype": self.dtype, "options": self.options}
        CASES.append(entry | {"tensors": sorted(self.tensors)})
        print(f"{self.name:34} {self.peer:16} {self.dtype:4} {sorted(self.tensors)}")


def inputs(case, b=2, t=7, s=11, n=4, k=4, h=8, hv=None, size=1.0):
    hv = hv or h
    q = case.draw("query", b, t, n, h, size=size)
    key = case.draw("key", b, s, k, h, size=size)
    value = case.draw("value", b, s, k, hv)
    grad = case.draw("grad_out", b, t, n, hv)
    return q, key, value, grad


def heads_first(x):
    return x.transpose(1, 2)


def store_gradients(case, out, wrt, grad_out, names, lse=None, grad_lse=None):
    outputs, cotangents = [out], [grad_out]
    if grad_lse is not None:
        outputs, cotangents = [out, lse], [grad_out, grad_lse]
    for name, g in zip(names, torch.autograd.grad(outputs, wrt, cotangents)):
        assert g.isfinite().all(), (case.name, name)
        case.put("grad_" + name, g)


# PyTorch: scaled_dot_product_attention.


def torch_sdpa(name, dtype="f64", shape={}, bias=None, mask=None, sdpa={}, negative_infinity=None, **options):
    case = Case(name, f"torch {TORCH}", dtype, **options)
    q, k, v, grad = inputs(case, **shape)
    wrt, names = [q, k, v], ["query", "key", "value"]
    arguments = dict(sdpa)
    if bias is not None:
        b = case.draw("bias", *bias)
        if negative_infinity is not None:
            b[negative_infinity] = -math.inf
            case.put("bias", b.to(torch.bfloat16))
        arguments["attn_mask"] = b
        if negative_infinity is None:
            wrt.append(b)
            names.append("bias")
    if mask is not None:
        arguments["attn_mask"] = case.put("mask", mask(case.generator))
    for x in wrt:
        x.requires_grad_()
    out = heads_first(F.scaled_dot_product_attention(heads_first(q), heads_first(k), heads_first(v), **arguments))
    case.put("out", out)
    store_gradients(case, out, wrt, grad, names)
    plain = not arguments.keys() & {"attn_mask", "enable_gqa"} and q.shape[-1] == v.shape[-1]
    if plain:  # the CPU flash operator behind it also gives the logsumexp
        given = {key: arguments[key] for key in ("is_causal", "scale") if key in arguments}
        flash, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*map(heads_first, (q, k, v)), **given)
        assert torch.allclose(heads_first(flash).double(), out.double(), atol=2e-2 if dtype in ("bf16", "f16") else 1e-5)
        case.put("lse", lse.double() if dtype == "f64" else lse.float())
    case.save()


def random_mask(*shape, empty_rows=()):
    def make(generator):
        m = torch.rand(shape, generator=generator) < 0.6
        m[..., 0] = True
        for row in empty_rows:
            m[..., row, :] = False
        return m

    return make


def torch_cases():
    torch_sdpa("torch_plain")
    torch_sdpa("torch_one_key", shape=dict(t=1, s=1, h=1))
    torch_sdpa("torch_value_head_dim", shape=dict(h=8, hv=24))
    torch_sdpa("torch_odd_head_dim", shape=dict(b=1, h=3, hv=5, n=2, k=2))
    torch_sdpa("torch_causal_square", shape=dict(t=11, s=11), sdpa=dict(is_causal=True), causal="top_left")
    torch_sdpa("torch_causal_wide", shape=dict(t=5, s=11), sdpa=dict(is_causal=True), causal="top_left")
    torch_sdpa("torch_causal_tall", shape=dict(t=11, s=6), sdpa=dict(is_causal=True), causal="top_left")
    torch_sdpa("torch_scale", sdpa=dict(scale=0.75), scale=0.75)
    torch_sdpa("torch_large_logits", shape=dict(b=1, size=24.0), sdpa=dict(scale=1.0), scale=1.0)
    torch_sdpa("torch_gqa", shape=dict(n=6, k=2), sdpa=dict(enable_gqa=True))
    torch_sdpa("torch_mqa_causal", shape=dict(n=4, k=1), sdpa=dict(enable_gqa=True, is_causal=True), causal="top_left")
    torch_sdpa("torch_mask_keys", mask=random_mask(2, 1, 1, 11))
    torch_sdpa("torch_mask_full", mask=random_mask(2, 4, 7, 11))
    torch_sdpa("torch_mask_empty_rows", mask=random_mask(7, 11, empty_rows=(0, 4, 6)))
    torch_sdpa("torch_bias_full", bias=(2, 4, 7, 11))
    torch_sdpa("torch_bias_per_head", bias=(1, 4, 7, 11))
    torch_sdpa("torch_bias_per_key", bias=(2, 1, 1, 11))
    torch_sdpa("torch_bias_rank_two", bias=(1, 11))
    rows = (Ellipsis, slice(3, 5), slice(None))
    torch_sdpa("torch_bias_infinite_rows", bias=(1, 1, 7, 11), negative_infinity=rows)
    for t, s in ((5, 11), (11, 6)):
        mask = causal_lower_right(t, s)
        name = "torch_bottom_right_" + ("wide" if t < s else "tall")
        torch_sdpa(name, shape=dict(t=t, s=s), sdpa=dict(attn_mask=mask), causal="bottom_right")
    large = dict(b=1, t=50, s=100, n=2, k=2, h=16)
    torch_sdpa("torch_f32", "f32", shape=large)
    torch_sdpa("torch_f32_causal", "f32", shape=large | dict(t=80, s=80), sdpa=dict(is_causal=True), causal="top_left")
    torch_sdpa("torch_bf16", "bf16", shape=large)
    torch_sdpa("torch_f16", "f16", shape=large)


# PyTorch: flex_attention forward, autograd of the formula backward.


def torch_flex(name, shape={}, score=None, visible=None, bias=None, alibi=False, sink=False, grad_lse=False, **options):
    """score(x, difference, slope) with difference = s - t; visible(b, t, s)."""
    case = Case(name, f"torch {TORCH}" + ("" if sink else " flex"), "f64", **options)
    q, k, v, grad = inputs(case, **shape)
    b, t, n, h = q.shape
    s, groups = k.shape[1], n // k.shape[2]
    slope = case.draw_f32("alibi_slopes", n)[0].abs() if alibi else torch.zeros(n, dtype=torch.float64)
    if alibi:
        case.put("alibi_slopes", slope.float())
    visible = visible or (lambda b, t, s: s >= 0)
    score = score or (lambda x, difference, slope: x)

    wrt, names = [q, k, v], ["query", "key", "value"]
    if sink:
        sinks = case.draw_f32("sink", n)[0]
        wrt.append(sinks)
        names.append("sink")
    for x in wrt:
        x.requires_grad_()
    difference = torch.arange(s)[None, :] - torch.arange(t)[:, None]
    wide_k, wide_v = (heads_first(x).repeat_interleave(groups, 1) for x in (k, v))
    logits = torch.einsum("btnh,bnsh->bnts", q, wide_k) * h**-0.5
    logits = score(logits, difference, slope[:, None, None])
    keep = visible(torch.arange(b)[:, None, None, None], torch.arange(t)[:, None], torch.arange(s)).expand(b, 1, t, s)
    logits = logits.masked_fill(~keep, -math.inf)
    if sink:
        logits = torch.cat([logits, sinks[None, :, None, None].expand(b, n, t, 1)], -1)
    lse = logits.logsumexp(-1)
    weights = (logits - lse.masked_fill(lse == -math.inf, 0)[..., None]).exp()[..., :s]
    out = heads_first(weights @ wide_v)

    if not sink:  # flex_attention has none; what it has must agree with the formula
        with torch.no_grad():
            block_mask = create_block_mask(lambda b, h, t, s: visible(b, t, s), b, None, t, s, device="cpu")
            modify = lambda x, b, h, t, s: score(x, s - t, slope[h])
            flex, aux = flex_attention(
                *(heads_first(x.detach()) for x in (q, k, v)),
                score_mod=modify,
                block_mask=block_mask,
                enable_gqa=groups > 1,
                return_aux=AuxRequest(lse=True),
            )
            held = lse > -math.inf  # flex_attention's lse of an empty row is its own
            assert torch.allclose(heads_first(flex), out, atol=1e-12, equal_nan=False), name
            assert torch.allclose(aux.lse[held], lse[held], atol=1e-12), name
    case.put("out", out)
    case.put("lse", lse)
    cotangent = case.draw("grad_lse", b, n, t) if grad_lse else None
    store_gradients(case, out, wrt, grad, names, lse, cotangent)
    case.save()


def flex_cases():
    capped = lambda x, difference, slope: 2.0 * torch.tanh(x / 2.0)
    leaning = lambda x, difference, slope: x - slope * difference.abs()
    capped_leaning = lambda x, difference, slope: leaning(capped(x, difference, slope), difference, slope)
    causal = lambda b, t, s: s <= t
    band = lambda left, right: lambda b, t, s: (s >= t - left) & (s <= t + right)
    torch_flex("flex_softcap", score=capped, softcap=2.0)
    torch_flex("flex_alibi", score=leaning, alibi=True)
    torch_flex("flex_softcap_alibi_causal", score=capped_leaning, visible=causal, alibi=True, softcap=2.0, causal="top_left")
    torch_flex("flex_window", visible=band(3, 2), window=[3, 2])
    torch_flex("flex_window_left_gqa", shape=dict(n=4, k=2), visible=lambda b, t, s: s >= t - 2, window=[2, -1])
    torch_flex("flex_window_empty_rows", shape=dict(t=11, s=6), visible=band(2, 0), window=[2, 0])
    torch_flex("flex_causal_window", visible=band(4, 0), causal="top_left", window=[4, 6])
    torch_flex("flex_lse_gradient", visible=causal, grad_lse=True, causal="top_left")
    torch_flex("formula_sink", shape=dict(n=4, k=2), sink=True)
    tall = dict(t=11, s=6)
    torch_flex("formula_sink_empty_rows", shape=tall, visible=band(2, 0), sink=True, grad_lse=True, window=[2, 0])


# PyTorch: packed sequences, one call per sequence.


def torch_packed(name, query_lengths, key_lengths, gap, causal=None, n=4, k=2, h=8):
    options = {"causal": causal} if causal else {}
    case = Case(name, f"torch {TORCH}", "f64", **options)
    starts = [[sum(l + gap for l in lengths[:i]) for i in range(len(lengths) + 1)] for lengths in (query_lengths, key_lengths)]
    q = case.draw("query", starts[0][-1], n, h).requires_grad_()
    key = case.draw("key", starts[1][-1], k, h).requires_grad_()
    value = case.draw("value", starts[1][-1], k, h).requires_grad_()
    grad = case.draw("grad_out", starts[0][-1], n, h)
    case.put("query_offsets", torch.tensor(starts[0], dtype=torch.int32))
    case.put("key_offsets", torch.tensor(starts[1], dtype=torch.int32))
    if gap:
        case.put("query_lengths", torch.tensor(query_lengths, dtype=torch.int32))
        case.put("key_lengths", torch.tensor(key_lengths, dtype=torch.int32))
    out = torch.zeros_like(grad)
    for q0, ql, k0, kl in zip(starts[0], query_lengths, starts[1], key_lengths):
        if ql == 0 or kl == 0:
            continue
        cut = [x[None, a : a + l].transpose(1, 2) for x, a, l in ((q, q0, ql), (key, k0, kl), (value, k0, kl))]
        mask = causal_lower_right(ql, kl) if causal == "bottom_right" else None
        one = F.scaled_dot_product_attention(*cut, attn_mask=mask, is_causal=causal == "top_left", enable_gqa=True)
        out = torch.cat([out[:q0], one[0].transpose(0, 1), out[q0 + ql :]])
    case.put("out", out)
    store_gradients(case, out, [q, key, value], grad, ["query", "key", "value"])
    case.save()


def packed_cases():
    torch_packed("torch_packed", [5, 1, 9], [7, 4, 9], gap=0)
    torch_packed("torch_packed_causal_gaps", [5, 0, 9, 3], [5, 4, 9, 0], gap=2, causal="top_left")
    torch_packed("torch_packed_bottom_right", [5, 1, 9], [7, 4, 6], gap=0, causal="bottom_right")


# JAX.


def to_jax(x):
    if x.dtype == torch.bfloat16:
        return jnp.asarray(x.float().numpy()).astype(jnp.bfloat16)
    return jnp.asarray(x.numpy())


def to_torch(x):
    if x.dtype == jnp.bfloat16:
        return torch.from_numpy(np.array(x.astype(jnp.float32))).to(torch.bfloat16)
    return torch.from_numpy(np.array(x))


def jax_case(name, dtype="f32", shape={}, bias=None, mask=None, lengths={}, call={}, **options):
    case = Case(name, f"jax {jax.__version__}", dtype, **options)
    q, k, v, grad = (to_jax(x) for x in inputs(case, **shape))
    operands, names = [q, k, v], ["query", "key", "value"]
    if bias is not None:
        operands.append(to_jax(case.draw("bias", *bias)))
        names.append("bias")
    fixed = dict(call)
    if mask is not None:
        fixed["mask"] = to_jax(case.put("mask", mask(case.generator)))
    for side, values in lengths.items():
        case.put(side, torch.tensor(values, dtype=torch.int32))
        fixed[{"query_lengths": "query_seq_lengths", "key_lengths": "key_value_seq_lengths"}[side]] = jnp.array(values, jnp.int32)

    def attention(*operands):
        q, k, v, *rest = operands
        return jax.nn.dot_product_attention(q, k, v, *rest, return_residual=True, **fixed)

    out, pull, lse = jax.vjp(attention, *operands, has_aux=True)
    case.put("out", to_torch(out))
    if "query_lengths" not in lengths and dtype != "bf16":  # its own past a query length, and rounded to bf16
        case.put("lse", to_torch(lse).transpose(1, 2))
    for n, g in zip(names, pull(grad)):
        case.put("grad_" + n, to_torch(g))
    case.save()


def jax_cases():
    jax_case("jax_plain")
    jax_case("jax_causal_tall", shape=dict(t=11, s=6), call=dict(is_causal=True), causal="top_left")
    jax_case("jax_causal_wide_gqa", shape=dict(t=5, s=11, n=6, k=2), call=dict(is_causal=True), causal="top_left")
    jax_case("jax_mqa", shape=dict(n=4, k=1))
    jax_case("jax_scale", call=dict(scale=0.75), scale=0.75)
    jax_case("jax_scale_zero", call=dict(scale=0.0), scale=0.0)
    jax_case("jax_window", call=dict(local_window_size=(3, 2)), window=[3, 2])
    jax_case("jax_window_symmetric_causal", call=dict(local_window_size=4, is_causal=True), window=[4, 4], causal="top_left")
    jax_case("jax_bias_per_head", bias=(1, 4, 7, 11))
    jax_case("jax_bias_per_entry_causal", bias=(2, 1, 7, 11), call=dict(is_causal=True), causal="top_left")
    jax_case("jax_bias_full_gqa", shape=dict(n=4, k=2), bias=(2, 4, 7, 11))
    jax_case("jax_mask_causal", mask=random_mask(2, 1, 7, 11), call=dict(is_causal=True), causal="top_left")
    jax_case("jax_mask_bias", mask=random_mask(1, 4, 7, 11), bias=(1, 1, 7, 11))
    jax_case("jax_key_lengths", lengths=dict(key_lengths=[11, 5]))
    jax_case("jax_lengths", lengths=dict(query_lengths=[4, 7], key_lengths=[9, 1]))
    both = dict(query_lengths=[7, 3], key_lengths=[11, 6])
    jax_case("jax_lengths_causal_gqa", shape=dict(n=4, k=2), lengths=both, call=dict(is_causal=True), causal="top_left")
    large = dict(b=1, t=50, s=100, n=2, k=2, h=16)
    jax_case("jax_long", shape=large)
    jax_case("jax_bf16", "bf16", shape=large)


def main():
    torch.set_num_threads(1)
    torch_cases()
    flex_cases()
    packed_cases()
    jax_cases()
    save_file(TENSORS, sys.argv[1], metadata={"cases": json.dumps(CASES)})
    print(f"{len(CASES)} cases, {len(TENSORS)} tensors, {os.path.getsize(sys.argv[1])} bytes")


if __name__ == "__main__":
    main()
