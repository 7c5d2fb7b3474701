#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times dhyan beside what a user would pick instead on a CPU: PyTorch's scaled_dot_product_attention and JAX.

All run in this one process over the same arrays, turn by turn, on the same number of threads; a figure is the median over
repeats, a ratio the median of the ratios within one repeat. Each of the project's speed and memory bars is printed with what
was measured and a verdict. GFLOP/s count 4*B*N*T*S*H, half of it when causal, 2.5 times it for the backward pass.
"""
import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
THREADS = len(os.sched_getaffinity(0))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from bars import Bars
from dhyan_c import BACKWARD, FORWARD, Library
from timing import geometric_mean, interleave, ratio
from statistics import median

# B, T = S, N = K, H
SHAPES = ((4, 128, 8, 64), (1, 512, 8, 64), (1, 1024, 8, 64), (1, 2048, 8, 64), (1, 4096, 4, 64), (1, 2048, 4, 128), (16, 256, 8, 64))
QUICK_SHAPES = ((1, 512, 8, 64), (1, 2048, 4, 128), (16, 256, 8, 64))
MATMUL_SIZE = 2048
LONGEST = 65536


def flops(shape, causal):
    b, t, n, h = shape
    return 4 * b * n * t * t * h * (0.5 if causal else 1)


class Contenders:
    """One shape's arrays and everybody's calls over them."""

    def __init__(self, library, shape, dtype, causal, with_naive):
        import torch
        import torch.nn.functional as F

        b, t, n, h = shape
        kind = getattr(torch, dtype)
        self.causal = causal
        self.query, self.key, self.value, self.grad_out = (torch.randn(b, t, n, h, dtype=kind) for _ in range(4))
        self.out, self.grad_query, self.grad_key, self.grad_value = (torch.full_like(self.query, math.nan) for _ in range(4))
        self.lse = torch.full((b, n, t), math.nan)
        inputs = {"query": self.query, "key": self.key, "value": self.value, "out": self.out, "lse": self.lse}
        gradients = {name: getattr(self, name) for name in ("grad_out", "grad_query", "grad_key", "grad_value")}
        options = {"causal": int(causal), "threads": THREADS}
        self.forward = self.backward = self.naive = None
        if library:
            self.forward = library.plan(FORWARD, inputs, implementation="fused", **options)
            self.backward = library.plan(BACKWARD, inputs | gradients, implementation="fused", **options)
        if library and with_naive:
            self.naive_out = torch.full_like(self.out, math.nan)
            naive = inputs | {"out": self.naive_out}
            del naive["lse"]
            self.naive = library.plan(FORWARD, naive, implementation="naive", **options)

        heads_first = [x.transpose(1, 2).requires_grad_() for x in (self.query, self.key, self.value)]
        self.torch_out = F.scaled_dot_product_attention(*heads_first, is_causal=causal)
        grad = self.grad_out.transpose(1, 2)

        def torch_forward():
            with torch.no_grad():
                return F.scaled_dot_product_attention(*heads_first, is_causal=causal)

        self.torch_forward = torch_forward
        self.torch_backward = lambda: torch.autograd.grad(self.torch_out, heads_first, grad, retain_graph=True)

    def jax_forward(self):
        import jax
        import jax.numpy as jnp

        kind = str(self.query.dtype).split(".")[-1]
        operands = [jnp.asarray(x.detach().float().numpy(), kind) for x in (self.query, self.key, self.value)]
        function = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=self.causal))
        return lambda: function(*operands).block_until_ready()

    def check(self):
        """Both sides compute the same thing, or the figures mean nothing."""
        bound = 1e-4 if self.query.element_size() == 4 else 3e-2
        self.forward()
        self.backward()
        right = self.torch_out.transpose(1, 2)
        pairs = {"out": (self.out, right)}
        for name, theirs in zip(("grad_query", "grad_key", "grad_value"), self.torch_backward()):
            pairs[name] = (getattr(self, name), theirs.transpose(1, 2))
        if self.naive:
            self.naive()
            pairs["naive out"] = (self.naive_out, right)
        for name, (a, b) in pairs.items():
            error = float((a.double() - b.detach().double()).norm() / b.detach().double().norm())
            if not error < bound:
                sys.exit(f"{name} differs from PyTorch's by {error:.2e} of its norm, at most {bound:.0e} is right: nothing timed")


def compare_shapes(library, arguments):
    import torch

    rows = []
    shapes = QUICK_SHAPES if arguments.quick else SHAPES
    for dtype in arguments.dtype:
        print(f"\n{dtype}, {THREADS} threads, GFLOP/s (x: times as fast as PyTorch)")
        print(f"{'B':>3} {'T':>5} {'N':>2} {'H':>4} {'mask':7}" + "".join(f"{name:>19}" for name in ("forward", "backward")), end="")
        print(f"{'torch fwd':>11}{'torch bwd':>11}{'JAX fwd':>9}{'naive fwd':>11}{'torch matmul':>14}")
        for shape in shapes:
            for causal in (False, True):
                torch.manual_seed(sum(shape))
                c = Contenders(library, shape, dtype, causal, with_naive=not arguments.quick)
                if library:
                    c.check()
                calls = {"torch_forward": c.torch_forward, "forward": c.forward}
                calls |= {"torch_backward": c.torch_backward, "backward": c.backward}
                if not arguments.quick:
                    calls |= {"jax_forward": c.jax_forward(), "naive_forward": c.naive}
                if shape[1] >= 2048 and shape[3] == 128 and not causal:
                    a, b = (torch.randn(MATMUL_SIZE, MATMUL_SIZE, dtype=getattr(torch, dtype)) for _ in range(2))
                    calls["torch_matmul"] = lambda: a @ b
                wanted = ("matmul",) + tuple(arguments.direction)
                calls = {name: call for name, call in calls.items() if call and name.endswith(wanted)}
                rows.append(measure_row(calls, arguments.repeats, shape, dtype, causal))
                print_row(rows[-1])
    return rows


def measure_row(calls, repeats, shape, dtype, causal):
    seconds = interleave(calls, repeats)
    row = dict(zip("BTNH", shape)) | {"dtype": dtype, "causal": "top_left" if causal else False}
    for name, times in seconds.items():
        work = 2 * MATMUL_SIZE**3 if name == "torch_matmul" else flops(shape, causal) * (2.5 if name.endswith("backward") else 1)
        row[name + "_ms"] = 1e3 * median(times)
        row[name + "_gflops"] = work / median(times) / 1e9
    for direction in ("forward", "backward"):
        for other in ("torch", "jax", "naive"):
            if direction in seconds and f"{other}_{direction}" in seconds:
                row[f"{direction}_over_{other}"] = ratio(seconds[f"{other}_{direction}"], seconds[direction])
    if "torch_matmul" in seconds and "forward" in seconds:
        share = flops(shape, causal) / (2 * MATMUL_SIZE**3)
        row["forward_of_matmul_rate"] = share * ratio(seconds["torch_matmul"], seconds["forward"])
    return row


def print_row(row):
    text = f"{row['B']:>3} {row['T']:>5} {row['N']:>2} {row['H']:>4} {'causal' if row['causal'] else 'full':7}"
    for name in ("forward", "backward"):
        rate, over = row.get(name + "_gflops"), row.get(name + "_over_torch")
        text += f"{rate:>10.1f} ({over:.2f}x)" if rate and over else f"{'-':>19}"
    for name, width in (("torch_forward", 11), ("torch_backward", 11), ("jax_forward", 9), ("naive_forward", 11), ("torch_matmul", 14)):
        rate = row.get(name + "_gflops")
        text += f"{rate:>{width}.1f}" if rate else f"{'-':>{width}}"
    print(text, flush=True)


def scratch(library):
    """Bytes of scratch and of what it may grow with, from plans alone."""
    rows = []
    for dtype in ("float32", "bfloat16"):
        for b, t, n, k, h in ((1, 2048, 8, 8, 64), (1, LONGEST, 1, 1, 64), (2, 8192, 32, 8, 128), (4, 4096, 8, 8, 512)):
            query, key, lse = (dtype, (b, t, n, h)), (dtype, (b, t, k, h)), ("float32", (b, n, t))
            forward = {"query": query, "key": key, "value": key, "out": query, "lse": lse}
            backward = forward | {"grad_out": query, "grad_query": query, "grad_key": key, "grad_value": key}
            shared = {"batch": (dtype, (1, n, t, t)), "heads": (dtype, (b, 1, t, t))}
            plan = lambda direction, arrays: library.plan(direction, arrays, implementation="fused", threads=THREADS).scratch_bytes
            row = {"dtype": dtype, "B": b, "T": t, "N": n, "K": k, "H": h, "forward": plan(FORWARD, forward)}
            row["backward"] = plan(BACKWARD, backward)
            row["f32_gradients"] = 4 * b * t * h * (n if n == k else n + 2 * k)
            for name, bias in shared.items():
                row[f"backward_bias_shared_by_{name}"] = plan(BACKWARD, backward | {"bias": bias, "grad_bias": bias})
            row["scores"] = 4 * t * t
            rows.append(row)
    return rows


def scratch_bars(bars, rows):
    mebibytes = lambda sizes: max(sizes) / 2**20 / THREADS
    bars.add("forward scratch, worst plan", mebibytes(r["forward"] for r in rows), 16, at_least=False, unit="MiB/thread")
    rest = mebibytes(r["backward"] - r["f32_gradients"] for r in rows)
    bars.add("backward scratch beyond one f32 dQ (GQA: dK, dV too)", rest, 16, at_least=False, unit="MiB/thread")
    extra = max((r[f"backward_bias_shared_by_{name}"] - r["backward"]) / r["scores"] for r in rows for name in ("batch", "heads"))
    bars.add("scratch that a shared bias's gradient adds, in matrices of scores", extra, 0.1, at_least=False, unit="")


def resident(library_path, direction):
    """Peak resident bytes and seconds of one call at the longest length, in a process of its own without PyTorch."""
    done = subprocess.run(
        [sys.executable, __file__, "--library", library_path, "--resident-child", direction], capture_output=True, text=True
    )
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout)


def resident_child(library, direction):
    import time

    import numpy as np

    generator = np.random.default_rng(0)
    draw = lambda: generator.standard_normal((1, LONGEST, 1, 64), dtype=np.float32)
    arrays = {"query": draw(), "key": draw(), "value": draw()}
    arrays |= {"out": np.empty_like(arrays["query"]), "lse": np.empty((1, 1, LONGEST), np.float32)}
    forward = library.plan(FORWARD, arrays, implementation="fused", threads=THREADS)
    start = time.perf_counter()
    forward()
    if direction == "backward":
        arrays["grad_out"] = draw()
        arrays |= {f"grad_{name}": np.empty_like(arrays[name]) for name in ("query", "key", "value")}
        backward = library.plan(BACKWARD, arrays, implementation="fused", threads=THREADS)
        start = time.perf_counter()
        backward()
    seconds = time.perf_counter() - start
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]  # getrusage counts the parent's too
    print(json.dumps({"bytes": 1024 * int(peak), "seconds": seconds}))


def google_benchmarks(program, repeats):
    """The C++ side: a planned small call, and one-query decode beside a plain read of the same bytes."""
    command = [program, "--benchmark_filter=^(planned|decode|read)", "--benchmark_format=json"]
    command += [f"--benchmark_repetitions={max(repeats, 3)}", "--benchmark_enable_random_interleaving=true"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-200:]}
    return {x["run_name"]: x for x in json.loads(done.stdout)["benchmarks"] if x.get("aggregate_name") == "median"}


def speed_bars(bars, rows, has_amx):
    for dtype, direction, limit in (
        ("float32", "forward", 1.3),
        ("float32", "backward", 1.2),
        ("bfloat16", "forward", 1.2 if has_amx else 1.8),
        ("bfloat16", "backward", 2.0),
    ):
        found = [r[f"{direction}_over_torch"] for r in rows if r["dtype"] == dtype and f"{direction}_over_torch" in r]
        if not found:
            continue
        bars.add(f"{dtype} {direction} over PyTorch, geometric mean", geometric_mean(found), limit)
        if (dtype, direction) == ("float32", "forward"):
            bars.add(f"{dtype} {direction} over PyTorch, slowest shape", min(found), 1.0)
    for r in rows:
        if r["dtype"] == "float32" and "forward_of_matmul_rate" in r:
            bars.add("float32 forward over PyTorch's matmul rate, T 2048, H 128", r["forward_of_matmul_rate"], 0.9)
    for dtype in ("float32", "bfloat16"):
        times = {(r["B"], r["T"], r["N"], r["H"], r["causal"]): r["forward_ms"] for r in rows if r["dtype"] == dtype and "forward_ms" in r}
        shares = [ms / times[shape[:4] + (False,)] for shape, ms in times.items() if shape[4] and shape[1] >= 2048]
        if shares:
            bars.add(f"{dtype} causal over full time, T >= 2048, worst shape", max(shares), 0.6, at_least=False)


def machine():
    text = Path("/proc/cpuinfo").read_text()
    field = lambda name: re.search(rf"^{name}\s*: (.*)$", text, re.M)[1]
    flags = set(field("flags").split())
    return {
        "cpu": re.sub(r"\((R|TM)\)", "", field("model name")).strip(),
        "family": int(field("cpu family")),
        "model": int(field("model")),
        "threads": THREADS,
        "features": sorted(flags & {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile"}),
        "system": f"{platform.system()} {platform.machine()}",
    }


def device_name(m):
    name = re.sub(r"[^a-z0-9]+", "-", m["cpu"].lower()).strip("-")
    return f"{name}-f{m['family']}m{m['model']}-{m['threads']}t"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=str(ROOT / "build/release/lib/libdhyan.so"))
    parser.add_argument("--benchmarks", default=str(ROOT / "build/release/bin/dhyan_bench"))
    parser.add_argument("--quick", action="store_true", help="three shapes, three repeats, PyTorch only, nothing written")
    parser.add_argument("--peers-only", action="store_true", help="without dhyan")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--direction", nargs="+", default=["forward", "backward"], choices=["forward", "backward"])
    parser.add_argument("--repeats", type=int, help="default 7, quick: 3")
    parser.add_argument("--out", type=Path, help="JSON file (default bench/results/DEVICE/peers.json)")
    parser.add_argument("--resident-child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    library = None if arguments.peers_only else Library(arguments.library)
    if arguments.resident_child:
        return resident_child(library, arguments.resident_child)
    arguments.repeats = arguments.repeats or (3 if arguments.quick else 7)

    import torch

    torch.set_num_threads(THREADS)
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    if not arguments.quick:
        import jax

        versions["jax"] = jax.__version__
    if library:
        versions["dhyan"] = library.version
    here = machine()
    print(f"{here['cpu']}, {THREADS} threads; " + ", ".join(f"{name} {version}" for name, version in versions.items()))

    result = {"machine": here, "versions": versions, "date": datetime.now(timezone.utc).strftime("%Y-%m-%d")}
    result["load_average_before"] = os.getloadavg()[0]  # above 1 or so others were at work, and times are theirs too
    result["shapes"] = rows = compare_shapes(library, arguments)
    if library:
        bars = Bars()
        speed_bars(bars, rows, "amx_bf16" in here["features"])
        naive = [r["forward_over_naive"] for r in rows if "forward_over_naive" in r]
        jax_ratios = [r["forward_over_jax"] for r in rows if "forward_over_jax" in r]
        result["scratch"] = scratch(library)
        scratch_bars(bars, result["scratch"])
        if not arguments.quick:
            for direction in ("forward", "backward"):
                found = result[f"resident_{direction}"] = resident(arguments.library, direction)
                name = f"resident memory at T = S = {LONGEST}, N 1, H 64, {direction}"
                bars.add(name, found.get("bytes", math.nan) / 2**30, 1, at_least=False, unit="GiB")
        small = result["benchmarks"] = google_benchmarks(arguments.benchmarks, arguments.repeats)
        for name in ("f32", "bf16"):
            decode, read = (small.get(f"{kind}_{name}/real_time", {}).get("real_time", math.nan) for kind in ("decode", "read"))
            bars.add(f"one-query decode over a plain read of its bytes, {name}", read / decode, 0.85)
        planned = small.get("planned_1x1x1x16", {})
        bars.add("planned 1x1x1x16 call", planned.get("real_time", math.nan) / 1e3, 2, at_least=False, unit="us")
        bars.print()
        if naive:
            print(f"\nfused over our naive, forward: {geometric_mean(naive):.2f}x; over JAX: {geometric_mean(jax_ratios):.2f}x (geometric means)")
        result["bars"] = bars.rows
    if not arguments.quick or arguments.out:
        out = arguments.out or ROOT / "bench/results" / device_name(here) / "peers.json"
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
        print(f"\nwritten to {out}")


if __name__ == "__main__":
    main()
