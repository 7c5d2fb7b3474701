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


def results(blocks=(), checks=(), timings=()):
    words = {"en": "words", "hi": ""}
    step = {"number": 1, "title": words, "explanation": words, "outcome": "done", "reason": words, "blocks": list(blocks),
            "notes": [words], "checks": list(checks), "timings": list(timings), "seconds": 1.5}
    verdict = {"text": words, "passed": len(checks), "failed": 0, "informative": 0, "not_run": 0}
    return json.dumps({"schema_version": 1, "verdict": verdict, "created": "2026-11-30T20:15:00Z", "version": "0.1.0",
                       "device": "cpu", "device_name": "name", "complete": True, "seconds": None,
                       "settings": {"repeats": "20"}, "machine": {"cpu": [1, 2.5, None]}, "steps": [step]}).encode()


def chart(kind, points, heat=(0, 0, ())):
    words = {"en": "words", "hi": "शब्द"}
    series = [{"key": "s", "label": "s", "colour": "#0969da", "marker": "circle",
               "points": [{"x": x, "y": 2, "low": None, "high": 3} for x in range(points)]}] if points else []
    return {"type": "chart", "key": "c", "kind": kind, "title": words, "caption": words, "alternative": words,
            "x_title": words, "y_title": words, "unit": "ms", "better": "lower", "logarithmic": True,
            "baseline": "s" if points else "", "series": series,
            "heat": dict(zip(("rows", "columns", "values"), (*heat[:2], list(heat[2]))))}


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
    words, cell = {"en": "words", "hi": ""}, {"text": "1.0", "value": 1.0, "hi": ""}
    table = {"type": "table", "key": "t", "title": words, "columns": [{"key": "a", "title": words, "numeric": True}],
             "rows": [[cell], [{"text": "", "value": None, "hi": ""}]]}
    yield "results_fuzz", "bare", results()
    yield "results_fuzz", "words", results([{"type": "paragraph", "text": words}, {"type": "code", "text": "x = 1"}])
    yield "results_fuzz", "table", results([table])
    for kind, points in {"bars": 1, "lines": 3}.items():
        yield "results_fuzz", kind, results([chart(kind, points)])
    yield "results_fuzz", "heat", results([chart("heat", 0, (1, 2, (0.5, None)))])
    yield "results_fuzz", "check", results(checks=[{"key": "k", "name": words, "value": cell, "relation": "≤", "limit": cell,
                                                    "verdict": "passed"}])
    yield "results_fuzz", "timing", results(timings=[{"series": "s", "label": "s", "setting": "T=1", "median_ms": 1,
                                                      "p10_ms": 1, "p90_ms": 1, "device_us": None, "samples_ms": [1, 2]}])


for program, name, content in corpus():
    folder = HERE / program
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
