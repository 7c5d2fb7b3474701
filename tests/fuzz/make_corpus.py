#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files that the fuzzers start from into corpus/, with Python's own library: small, valid, one feature each."""

import io
import json
import pathlib
import struct
import zipfile

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
DTYPES = {"<f8": 8, "<f4": 4, "<f2": 2, "<i4": 4, "<i8": 8, "|b1": 1, "|u1": 1}


def npy(descr="<f4", shape=(2, 3), version=1, data=None):
    count = 1
    for d in shape:
        count *= d
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % (descr, tuple(shape))
    start = 10 if version == 1 else 12
    text += " " * (-(start + len(text) + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    body = bytes(i % 2 for i in range(count * DTYPES[descr])) if data is None else data
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + body


def npz(members, method=zipfile.ZIP_STORED, zip64=False):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, body in members.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=zip64) as member:
                member.write(body)
    return file.getvalue()


def deflated(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def safetensors(tensors, metadata=None):
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text.encode() + bytes(at)


def corpus():
    for descr in DTYPES:
        yield "npy_fuzz", descr.strip("<|"), npy(descr)
    for version in (2, 3):
        yield "npy_fuzz", f"version{version}", npy(version=version)
    for name, shape in {"scalar": (), "vector": (5,), "empty": (0, 4), "btnh": (1, 2, 2, 3)}.items():
        yield "npy_fuzz", name, npy(shape=shape)
    one, two = {"a.npy": npy()}, {"a.npy": npy("<f8"), "b.npy": npy("|b1", (4,)), "readme.txt": b"text"}
    yield "npz_fuzz", "stored", npz(one)
    yield "npz_fuzz", "stored_zip64", npz(one, zip64=True)
    yield "npz_fuzz", "two", npz(two)
    yield "npz_fuzz", "deflated", deflated(two)
    yield "npz_fuzz", "none", npz({})
    yield "safetensors_fuzz", "one", safetensors({"x": ("F32", [2, 2], 16)})
    yield "safetensors_fuzz", "types", safetensors(
        {t: (t, [2], 2 * n) for t, n in {"F64": 8, "F16": 2, "BF16": 2, "I32": 4, "I64": 8, "BOOL": 1, "U8": 1}.items()})
    yield "safetensors_fuzz", "metadata", safetensors({"x": ("I8", [3], 3)}, {"format": "np"})
    yield "safetensors_fuzz", "empty_tensor", safetensors({"x": ("F32", [0, 7], 0), "y": ("F4", [4], 2)})
    yield "safetensors_fuzz", "none", safetensors({})


for program, name, content in corpus():
    folder = HERE / program
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
