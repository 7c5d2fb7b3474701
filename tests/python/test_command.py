# SPDX-License-Identifier: Apache-2.0
"""The dhyan command on files that numpy and safetensors wrote, against what JAX computes; results read back by both."""
import json
import os
import subprocess

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

jax.config.update("jax_enable_x64", True)

PROGRAM = os.environ["DHYAN_PROGRAM"]
DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
# Errors of a weighted mean of values of size 1: a few units in the last place of the type; f64: JAX's softmax is float32.
TOLERANCE = {"f64": 1e-6, "f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}


def dhyan(*arguments):
    """Runs the command; its exit code, standard output and standard error."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def problem(dtype, batch=2, queries=33, keys=47, heads=6, key_heads=2, head_dim=24, seed=0):
    random = np.random.default_rng(seed)
    shapes = {"query": (batch, queries, heads, head_dim), "key": (batch, keys, key_heads, head_dim)}
    shapes["value"] = shapes["key"]
    return {name: random.standard_normal(shape).astype(DTYPES[dtype]) for name, shape in shapes.items()}


def expected(tensors, **options):
    q, k, v = (jnp.asarray(tensors[name].astype(np.float64)) for name in ("query", "key", "value"))
    return np.asarray(jax.nn.dot_product_attention(q, k, v, **options))


def inputs(tensors, folder, form):
    """Writes the tensors in one format; the arguments that name them."""
    if form == "npy":
        for name, tensor in tensors.items():
            np.save(folder / f"{name}.npy", tensor)
        return [x for name in tensors for x in (f"--{name}", folder / f"{name}.npy")]
    if form == "safetensors":
        file = folder / "in.safetensors"
        save_file(tensors, file)
    else:
        file = folder / "in.npz"
        (np.savez_compressed if form == "npz compressed" else np.savez)(file, **tensors)
    return [x for name in tensors for x in (f"--{name}", f"{file}:{name}")]


@pytest.mark.parametrize("implementation", ["reference", "naive", "fused"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_jax(tmp_path, dtype, implementation):
    tensors = problem(dtype)
    arguments = inputs(tensors, tmp_path, "safetensors")
    out = tmp_path / "out.safetensors"
    code, _, errors = dhyan("run", *arguments, "--causal", "--implementation", implementation, "--out", out)
    if (dtype, implementation) == ("f64", "fused"):
        assert code == 2 and "f64" in errors
        return
    assert code == 0, errors
    result = load_file(out)["out"]
    assert result.dtype == DTYPES[dtype]
    np.testing.assert_allclose(result.astype(np.float64), expected(tensors, is_causal=True), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("form", ["npy", "npz", "npz compressed", "safetensors"])
def test_reads_what_numpy_and_safetensors_write(tmp_path, form):
    tensors = problem("f32")
    code, _, errors = dhyan("run", *inputs(tensors, tmp_path, form), "--out", tmp_path / "out.npy")
    assert code == 0, errors
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected(tensors), rtol=0, atol=TOLERANCE["f32"])


def test_options_mean_what_they_mean_in_jax(tmp_path):
    tensors = problem("f32")
    random = np.random.default_rng(1)
    bias = random.standard_normal((1, 6, 33, 47)).astype(np.float32)
    mask = random.random((2, 1, 33, 47)) < 0.7
    mask[..., 0] = True  # JAX gives a mean of all values where nothing is visible
    key_lengths = np.array([47, 20], np.int32)
    np.save(tmp_path / "bias.npy", bias)
    np.save(tmp_path / "mask.npy", mask)
    code, _, errors = dhyan("run", *inputs(tensors, tmp_path, "npz"), "--bias", tmp_path / "bias.npy", "--mask",
                            tmp_path / "mask.npy", "--scale", 0.3, "--key-lengths", "47,20", "--out", tmp_path / "out.npy")
    assert code == 0, errors
    jax_out = expected(tensors, bias=jnp.asarray(bias.astype(np.float64)), mask=jnp.asarray(mask), scale=0.3,
                       key_value_seq_lengths=jnp.asarray(key_lengths))
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), jax_out, rtol=0, atol=TOLERANCE["f32"])


def test_gradients_equal_jax(tmp_path):
    tensors = problem("f32")
    grad_out = np.random.default_rng(2).standard_normal(tensors["query"].shape).astype(np.float32)
    np.save(tmp_path / "grad_out.npy", grad_out)
    out = tmp_path / "out.safetensors"
    code, _, errors = dhyan("run", *inputs(tensors, tmp_path, "npy"), "--grad-out", tmp_path / "grad_out.npy", "--out", out)
    assert code == 0, errors
    wide = [jnp.asarray(tensors[name].astype(np.float64)) for name in ("query", "key", "value")]
    gradients = jax.vjp(jax.nn.dot_product_attention, *wide)[1](jnp.asarray(grad_out.astype(np.float64)))
    result = load_file(out)
    for name, gradient in zip(("grad_query", "grad_key", "grad_value"), gradients):
        np.testing.assert_allclose(result[name], np.asarray(gradient), rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("change, words", [
    (lambda x: np.asfortranarray(x), "ortran"),
    (lambda x: x.astype(">f4"), ">f4"),
    (lambda x: x.astype(np.complex64), "<c8"),
])
def test_refuses_arrays_it_would_misread(tmp_path, change, words):
    tensors = problem("f32")
    tensors["key"] = change(tensors["key"])
    code, out, errors = dhyan("run", *inputs(tensors, tmp_path, "npy"))
    assert code == 2 and out == ""
    assert "key.npy" in errors and words in errors and errors.count("\n") == 1, errors


def test_compare_prints_records(tmp_path):
    code, out, errors = dhyan("run", *inputs(problem("bf16"), tmp_path, "safetensors"), "--compare", "--json")
    assert code == 0, errors
    records = json.loads(out)["records"]
    assert {"reference", "naive", "fused"} <= {record["implementation"] for record in records}
    assert all(record["ok"] for record in records if record["implementation"] in ("reference", "naive", "fused"))
