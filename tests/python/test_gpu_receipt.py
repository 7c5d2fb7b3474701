# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_receipt on a small tree of its own: fresh, stale, failed, absent."""
import json
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["include", "src/api", "src/core", "src/cuda", "src/cudnn", "cmake", "tests/gpu", "tests/support", "scripts"]


@pytest.fixture
def tree(tmp_path):
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text(folder)
    for name in ("src/CMakeLists.txt", "cmake/cuda.cmake", "cmake/settings.cmake"):
        (tmp_path / name).write_text(name)
    shutil.copy(ROOT / "scripts/gpu_receipt", tmp_path / "scripts")
    return tmp_path


def ask(tree, *words):
    done = subprocess.run([tree / "scripts/gpu_receipt", *words], capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


def write(tree, failed=0):
    receipt = {"source_hash": ask(tree, "hash")[1], "date": "2026-11-30", "device": "NVIDIA H200", "passed": 12, "failed": failed,
               "skipped": 1, "suites": [{"name": "A", "passed": 12, "failed": failed, "skipped": 1}]}
    (tree / "tests/gpu/receipt.json").write_text(json.dumps(receipt, indent=2) + "\n")


def test_a_missing_receipt_is_said(tree):
    code, text = ask(tree, "check")
    assert code == 1 and text.startswith("GPU receipt: none")


def test_a_receipt_of_the_same_sources_is_fresh(tree):
    write(tree)
    assert ask(tree, "check") == (0, "GPU receipt: fresh; 12 passed, 0 failed, 1 skipped on NVIDIA H200, 2026-11-30")


@pytest.mark.parametrize("name", ["src/cuda/file", "include/file", "tests/gpu/new", "cmake/cuda.cmake"])
def test_any_change_of_a_source_makes_it_stale(tree, name):
    write(tree)
    (tree / name).write_text("changed")
    code, text = ask(tree, "check")
    assert code == 1 and "STALE" in text


def test_other_files_do_not(tree):
    write(tree)
    (tree / "README.md").write_text("changed")
    assert ask(tree, "check")[0] == 0


def test_failures_are_said(tree):
    write(tree, failed=2)
    code, text = ask(tree, "check")
    assert code == 1 and "FAILURES" in text and "2 failed" in text


def shards(tree, indices, sources=None):
    names = []
    for index in indices:
        names.append(tree / f"shard.{index}.json")
        receipt = {"source_hash": sources or ask(tree, "hash")[1], "date": "2026-11-30", "device": "NVIDIA H200", "passed": 2 + index,
                   "failed": 0, "skipped": 1, "suites": [{"name": "A", "passed": 2 + index, "failed": 0, "skipped": 1}],
                   "shards": 2, "shard": index}
        names[-1].write_text(json.dumps(receipt))
    return names


def test_shards_of_one_run_make_a_receipt(tree):
    assert ask(tree, "merge", *shards(tree, [0, 1])) == (
        0, "GPU receipt: fresh; 5 passed, 0 failed, 2 skipped on NVIDIA H200, 2026-11-30")
    receipt = json.loads((tree / "tests/gpu/receipt.json").read_text())
    assert receipt["suites"] == [{"name": "A", "passed": 5, "failed": 0, "skipped": 2}]
    assert "shard" not in receipt and "shards" not in receipt


@pytest.mark.parametrize("indices", [[], [0], [0, 0], [1, 0, 1]])
def test_a_run_that_lacks_a_shard_makes_none(tree, indices):
    assert ask(tree, "merge", *shards(tree, indices))[0] == 1
    assert not (tree / "tests/gpu/receipt.json").exists()


def test_shards_of_other_sources_make_none(tree):
    assert ask(tree, "merge", *shards(tree, [0]), *shards(tree, [1], sources="other"))[0] == 1


def test_the_header_is_left_alone_while_the_sources_are_the_same(tree):
    header = tree / "build/hash.hpp"
    assert ask(tree, "header", header)[0] == 0
    assert ask(tree, "hash")[1] in header.read_text()
    before = header.stat().st_mtime_ns
    ask(tree, "header", header)
    assert header.stat().st_mtime_ns == before
    (tree / "src/api/file").write_text("changed")
    ask(tree, "header", header)
    assert ask(tree, "hash")[1] in header.read_text()
