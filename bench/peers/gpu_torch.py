#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times dhyan beside PyTorch's scaled_dot_product_attention (FlashAttention-2, cuDNN, memory-efficient, math) on a GPU.

All run in this one process over the same memory, turn by turn; a figure is the median over rounds, a ratio the median of the
ratios within one round. TFLOP/s count 4*B*N*T*S*H, half of it when causal, 2.5 times it for the backward pass. Ours runs plans
through the C interface on PyTorch's device pointers. Needs torch >= 2.11 with CUDA and a build of libdhyan with CUDA.

Parts: forward, backward (bf16, 16k tokens, hidden size 2048), f32 (with errors against float64), small (a graph's replay, and
host time), decode (one query; a graph's replay, and with the L2 cache flushed before each call).
"""
import argparse
import json
import math
import sys
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from bars import Bars
from dhyan_c import BACKWARD, FORWARD, Library
from gpu_timing import Clocks, Timer
from timing import geometric_mean, ratio

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "torch_cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
TOKENS, HIDDEN = 16384, 2048
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
F32_SHAPES = ((4, 8, 64), (1, 16, 128))  # B, N, H
# B, S, N, K, H
DECODE_SHAPES = ((1, 8192, 32, 8, 128), (8, 8192, 32, 8, 128), (64, 4096, 32, 8, 128), (1, 131072, 32, 8, 128))
DECODE_SHAPES += ((16, 32768, 64, 8, 128), (128, 2048, 32, 32, 64), (1, 512, 32, 8, 128), (4, 2048, 32, 8, 128))


class Case:
    """One problem's arrays and everybody's calls over them."""

    def __init__(self, b, t, s, n, k, h, dtype=torch.bfloat16, causal=False):
        torch.manual_seed(b + t + s + n + h)
        draw = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)
        self.query, self.key, self.value = draw(b, t, n, h), draw(b, s, k, h), draw(b, s, k, h)
        self.grad_out = draw(b, t, n, h)
        self.causal, self.gqa = causal, n != k
        self.lse = torch.empty(b, n, t, device="cuda")
        self.flops = 4 * b * n * t * s * h * (0.5 if causal else 1)
        self.point = {"B": b, "T": t, "S": s, "N": n, "K": k, "H": h, "causal": causal, "dtype": str(dtype).split(".")[-1]}
        self.refused = {}
        self.outputs = {}

    def ours(self, library, implementation, direction=FORWARD, **options):
        """A call, or None with the reason noted."""
        name = f"dhyan_{implementation}" + "".join(f"_{k}{v}" for k, v in options.items())
        arrays = {"query": self.query, "key": self.key, "value": self.value, "out": torch.full_like(self.query, math.nan)}
        arrays["lse"] = self.lse
        if direction == BACKWARD:
            arrays["out"] = self.torch_out.detach().transpose(1, 2)
            arrays["grad_out"] = self.grad_out
            arrays |= {f"grad_{x}": torch.full_like(getattr(self, x), math.nan) for x in ("query", "key", "value")}
        self.outputs[name] = arrays
        try:
            plan = library.plan(direction, arrays, implementation=implementation, causal=int(self.causal), **options)
            plan.scratch = torch.empty(plan.scratch_bytes, dtype=torch.uint8, device="cuda")
            plan(torch.cuda.current_stream().cuda_stream)
        except RuntimeError as error:
            self.refused[name] = str(error)
            return {}
        self.point.setdefault("described", {})[name] = plan.describe()
        return {name: lambda: plan(torch.cuda.current_stream().cuda_stream)}

    def heads_first(self):
        return [x.transpose(1, 2) for x in (self.query, self.key, self.value)]

    def torch_forward(self, name):
        query, key, value = self.heads_first()

        def call():
            with torch.no_grad(), sdpa_kernel(BACKENDS[name]):
                return F.scaled_dot_product_attention(query, key, value, is_causal=self.causal, enable_gqa=self.gqa)

        try:
            self.torch_result = call()
        except RuntimeError as error:
            self.refused[name] = str(error)[:120]
            return {}
        return {name: call}

    def torch_backward(self, name):
        leaves = [x.detach().requires_grad_() for x in self.heads_first()]
        grad = self.grad_out.transpose(1, 2)
        with sdpa_kernel(BACKENDS[name]):
            out = F.scaled_dot_product_attention(*leaves, is_causal=self.causal)
        self.torch_out = out
        return {name: lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True)}

    def check(self, name, pairs):
        bound = 3e-2 if self.query.dtype != torch.float32 else 2e-3 if "precision" in name else 1e-5
        for what, (got, right) in pairs.items():
            error = float((got.double() - right.detach().double()).norm() / right.detach().double().norm())
            if not error < bound:
                sys.exit(f"{self.point}: {name} {what} differs from PyTorch's by {error:.2e} of its norm: nothing timed")

    def row(self, times, work):
        row = dict(self.point) | {"us": {name: round(median(x), 3) for name, x in times.items()}}
        row["tflops"] = {name: round(work / median(x) / 1e6, 1) for name, x in times.items()}
        row["over"] = {
            mine: {peer: round(ratio(times[peer], times[mine]), 4) for peer in times if peer in BACKENDS}
            for mine in times
            if mine.startswith("dhyan")
        }
        if self.refused:
            row["refused"] = self.refused
        print(text_of(row), flush=True)
        return row


def text_of(row):
    text = " ".join(f"{letter}{row[letter]}" for letter in "BTSNKH") + (" causal" if row["causal"] else " full  ")
    for name, us in row["us"].items():
        text += f"  {name} {us:.2f}us"
        if row["tflops"][name] > 1:
            text += f" {row['tflops'][name]:.0f}T"
    for mine, over in row["over"].items():
        text += f"  {mine[6:]}: " + " ".join(f"{x:.3f}x {peer}" for peer, x in over.items())
    return text + "".join(f"  [{name}: {why}]" for name, why in row.get("refused", {}).items())


def training_shapes(arguments):
    for h in arguments.head_dims:
        for t in arguments.lengths:
            for causal in (False, True):
                yield TOKENS // t, t, t, HIDDEN // h, HIDDEN // h, h, causal


def forward(library, timer, arguments):
    for *shape, causal in training_shapes(arguments):
        case = Case(*shape, causal=causal)
        calls = case.torch_forward("torch_cudnn") | case.torch_forward("flash")
        for implementation in arguments.ours:
            for name, call in case.ours(library, implementation).items():
                case.check(name, {"out": (case.outputs[name]["out"], case.torch_result.transpose(1, 2))})
                calls[name] = call
        yield case.row(timer.device(calls), case.flops)


def backward(library, timer, arguments):
    for *shape, causal in training_shapes(arguments):
        case = Case(*shape, causal=causal)
        calls = {}
        for peer in ("torch_cudnn", "flash"):
            calls |= case.torch_backward(peer)
        case.lse = exact_lse(case)
        right = calls["flash"]()
        for implementation in arguments.ours:
            for deterministic in (0, 1) if implementation == "fused" else (0,):
                options = {"deterministic": 1} if deterministic else {}
                for name, call in case.ours(library, implementation, BACKWARD, **options).items():
                    got = case.outputs[name]
                    names = ("grad_query", "grad_key", "grad_value")
                    case.check(name, {x: (got[x], theirs.transpose(1, 2)) for x, theirs in zip(names, right)})
                    calls[name] = call
        yield case.row(timer.device(calls, sleep=1_200_000), 2.5 * case.flops)


def exact_lse(case):
    """Through FlashAttention's own operator: lse in natural log."""
    query, key, value = case.heads_first()
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, case.causal)[1].contiguous()


def float64_error(case, call, outputs=None):
    """Largest error against float64, one head after another: scores of a long sequence are large."""
    result = call()
    torch.cuda.synchronize()
    got = result if outputs is None else outputs["out"].transpose(1, 2)
    worst = 0.0
    query, key, value = case.heads_first()
    rows = torch.arange(query.shape[2], device="cuda")[:, None]
    for b in range(query.shape[0]):
        for n in range(query.shape[1]):
            scores = query[b, n].double() @ key[b, n].double().T / math.sqrt(query.shape[3])
            if case.causal:
                scores.masked_fill_(rows < rows.T, -math.inf)
            right = torch.softmax(scores, -1) @ value[b, n].double()
            worst = max(worst, float((got[b, n].double() - right).abs().max()))
            if query.shape[2] > 4096 and n >= 1:
                return worst
    return worst


def f32(library, timer, arguments):
    torch.backends.cuda.matmul.allow_tf32 = False
    for b, n, h in F32_SHAPES:
        for t in (128, 512, 1024, 4096, 16384):
            for causal in (False, True):
                case = Case(b if t <= 4096 else 1, t, t, n if t <= 4096 else 2, n if t <= 4096 else 2, h, torch.float32, causal)
                calls = case.torch_forward("efficient")
                right = case.torch_result.transpose(1, 2)
                kinds = [(implementation, {}) for implementation in arguments.ours if implementation != "cudnn"]
                kinds += [(kind, {}) for kind in ("naive",) if kind not in arguments.ours] + [("fused", {"precision": 1})]
                for implementation, options in kinds:
                    for name, call in case.ours(library, implementation, **options).items():
                        case.check(name, {"out": (case.outputs[name]["out"], right)})
                        calls[name] = call
                if t <= 4096:
                    calls |= case.torch_forward("math")
                times = timer.graph(calls) if t <= 1024 else timer.device(calls, repeats=5)
                row = case.row(times, case.flops)
                if t in (512, 16384):
                    row["max_error"] = {name: float64_error(case, call, case.outputs.get(name)) for name, call in calls.items()}
                    print("    largest error against float64: " + ", ".join(f"{k} {v:.2e}" for k, v in row["max_error"].items()))
                yield row


def small(library, timer, arguments):
    for t in (64, 128, 256, 512, 1024):
        for causal in (False, True):
            case = Case(4, t, t, 8, 8, 64, causal=causal)
            calls = case.torch_forward("torch_cudnn") | case.torch_forward("flash")
            for implementation in arguments.ours:
                for name, call in case.ours(library, implementation).items():
                    case.check(name, {"out": (case.outputs[name]["out"], case.torch_result.transpose(1, 2))})
                    calls[name] = call
            row = case.row(timer.graph(calls), case.flops)
            if t == 128:
                row["host_us"] = {name: round(median(x), 2) for name, x in timer.host(calls).items()}
                print("    host: " + ", ".join(f"{name} {us:.2f} us" for name, us in row["host_us"].items()))
            yield row


def decode(library, timer, arguments):
    for b, s, n, k, h in DECODE_SHAPES:
        case = Case(b, 1, s, n, k, h)
        calls = case.torch_forward("torch_cudnn") | case.torch_forward("flash")
        for implementation in arguments.ours:
            for name, call in case.ours(library, implementation).items():
                case.check(name, {"out": (case.outputs[name]["out"], case.torch_result.transpose(1, 2))})
                calls[name] = call
        row = case.row(timer.graph(calls), case.flops)
        row["kv_bytes"] = 2 * b * s * k * h * 2
        flushed = timer.device(calls, flush=True)
        row["flushed_us"] = {name: round(median(x), 2) for name, x in flushed.items()}
        best = min(row["us"].values())
        print("    flushed: " + ", ".join(f"{name} {us:.2f} us" for name, us in row["flushed_us"].items()), end="")
        print(f"; K+V {row['kv_bytes'] / 1e6:.0f} MB, fastest {row['kv_bytes'] / best / 1e3:.0f} GB/s")
        yield row


PARTS = {"forward": forward, "backward": backward, "f32": f32, "small": small, "decode": decode}


def ratios(rows, mine, peer, wanted=lambda row: True):
    return [row["over"][mine][peer] for row in rows if wanted(row) and peer in row["over"].get(mine, {})]


def add_bars(bars, parts):
    for part in ("forward", "backward"):
        rows = parts.get(part, [])
        over = ratios(rows, "dhyan_fused", "flash")
        bars.add(f"bf16 {part}, fused over FlashAttention-2, geometric mean", geometric_mean(over), 1)
        over = ratios(rows, "dhyan_cudnn", "torch_cudnn")
        bars.add(f"bf16 {part}, cudnn over PyTorch's cuDNN, geometric mean", geometric_mean(over), 0.98)
    rows = [row for row in parts.get("f32", []) if row["T"] <= 4096]
    bars.add("f32 fused over memory-efficient, geometric mean", geometric_mean(ratios(rows, "dhyan_fused", "efficient")), 1.4)
    full = ratios(rows, "dhyan_fused", "efficient", lambda row: row["H"] == 128 and not row["causal"])
    bars.add("f32 fused over memory-efficient, H 128 full, slowest", min(full, default=math.nan), 1.25)
    both = lambda figures: {"dhyan_fused", "dhyan_naive"} <= set(figures)
    times = [row["us"] for row in parts.get("f32", []) if row["T"] >= 512 and both(row["us"])]
    naive = [us["dhyan_naive"] / us["dhyan_fused"] for us in times]
    bars.add("f32 fused over naive, T >= 512, slowest", min(naive, default=math.nan), 1)
    errors = [row["max_error"] for row in parts.get("f32", []) if both(row.get("max_error", {}))]
    worst = max((e["dhyan_fused"] / e["dhyan_naive"] for e in errors), default=math.nan)
    bars.add("f32 error of fused over that of naive (cuBLAS), largest", worst, 2, at_least=False)
    for row in parts.get("small", []):
        if row["T"] <= 256 and not row["causal"]:
            us = row["us"].get("dhyan_fused", math.nan)
            bars.add(f"codelab shape, T {row['T']}, fused in a graph", us, 4.5, at_least=False, unit="us")
        if "host_us" in row and not row["causal"]:
            bars.add("host time of a planned run, fused", row["host_us"].get("dhyan_fused", math.nan), 5, at_least=False, unit="us")
    large = ratios(parts.get("decode", []), "dhyan_fused", "torch_cudnn", lambda row: row["kv_bytes"] >= 250e6)
    bars.add("decode with K+V >= 250 MB, fused over cuDNN, slowest", min(large, default=math.nan), 0.97)
    for row in parts.get("decode", [])[:1]:
        us = row["us"].get("dhyan_fused", math.nan)
        bars.add("decode B 1, S 8192, N 32, K 8, H 128, fused in a graph", us, 10, at_least=False, unit="us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=str(ROOT / "build/release/lib/libdhyan.so"))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--ours", nargs="+", default=["fused", "cudnn"], choices=["fused", "cudnn", "naive", "auto"])
    parser.add_argument("--head-dims", nargs="+", type=int, default=[64, 128, 256], help="of forward and backward")
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS), help="of forward and backward")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    timer = Timer(arguments.rounds)

    device = torch.cuda.get_device_properties(0)
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    result = {
        "device": device.name,
        "versions": versions | {"dhyan": library.version},
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "rounds": arguments.rounds,
        "clocks": {},
        "parts": {},
    }
    print(f"{device.name}; " + ", ".join(f"{name} {version}" for name, version in result["versions"].items()))
    for name in arguments.parts:
        print(f"\n{name}")
        with Clocks() as clocks:
            rows = result["parts"][name] = []
            for row in PARTS[name](library, timer, arguments):
                rows.append(row)
                torch.cuda.empty_cache()
        result["clocks"][name] = clocks.seen
        print("    clocks: " + ", ".join(f"{field} {seen['least']:g}..{seen['most']:g}" for field, seen in clocks.seen.items()))
        if arguments.out:
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    bars = Bars()
    add_bars(bars, result["parts"])
    bars.rows = [row for row in bars.rows if row["met"] is not None or len(arguments.parts) == len(PARTS)]
    bars.print()
    result["bars"] = bars.rows
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        print(f"\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
