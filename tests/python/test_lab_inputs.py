# SPDX-License-Identifier: Apache-2.0
"""The digests that lab_random_test.cpp holds the lab's inputs to, asked of the JAX installed here."""
import pathlib
import re
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "lab_random_test.cpp"
DRAW = re.compile(r"\{(\d+), (\d+), (\d+), (\d+), (true|false), 0x([0-9A-F]{8}), \{0x([0-9A-F]+), 0x([0-9A-F]+)\}\}")


def draws():
    return [
        (int(seed), int(parts), int(part), int(size), bf16 == "true", int(crc, 16), (int(first, 16), int(second, 16)))
        for seed, parts, part, size, bf16, crc, first, second in DRAW.findall(SOURCE.read_text())
    ]


def fused_multiply_add() -> bool:
    """Whether XLA has FMA here: without it JAX's own normals differ in their last bits, and the lab keeps to those with it."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    return "fma" in flags


def test_every_draw_of_the_source_is_read():
    rows = [line for line in SOURCE.read_text().splitlines() if line.startswith("    {") and line.endswith("}},")]
    assert len(draws()) == len(rows) > 50


@pytest.mark.skipif(not fused_multiply_add(), reason="this processor has no FMA")
@pytest.mark.parametrize("draw", draws(), ids=lambda draw: f"seed{draw[0]}-part{draw[2]}-size{draw[3]}")
def test_jax_draws_the_same_bits(draw):
    seed, parts, part, size, bf16, crc, first = draw
    key = jax.random.split(jax.random.key(seed), parts)[part]
    values = np.asarray(jax.random.normal(key, (size,), dtype=jnp.bfloat16 if bf16 else jnp.float32))
    bits = values.view(np.uint16 if bf16 else np.uint32)
    assert tuple(int(x) for x in bits[:2]) == first
    assert zlib.crc32(values.tobytes()) == crc
