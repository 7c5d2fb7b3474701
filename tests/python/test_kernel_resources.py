# SPDX-License-Identifier: Apache-2.0
"""scripts/kernel_resources on logs of a small tree of its own."""
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_90a'
ptxas info    : Function properties for _Z3addPf
    16 bytes stack frame, {spills} bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, {shared} bytes smem
ptxas info    : Compile time = 7.206 ms
"""


@pytest.fixture
def tree(tmp_path):
    for folder in ("scripts", "src/cuda", "build"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "scripts/kernel_resources", tmp_path / "scripts")
    build(tmp_path)
    assert run(tmp_path, "update")[0] == 0
    return tmp_path


def build(tree, spills=8, shared=256, name="_Z3addPf"):
    (tree / "build/add.cu.o.ptxas").write_text(LOG.format(spills=spills, shared=shared).replace("_Z3addPf", name))


def run(tree, action):
    done = subprocess.run([tree / "scripts/kernel_resources", action, tree / "build"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_table_says_what_the_compiler_said(tree):
    lines = (tree / "src/cuda/kernels.tsv").read_text().splitlines()
    assert lines[1:] == ["add(float*)\tsm_90a\t40\t8\t256"]
    assert run(tree, "check") == (0, "kernel resources: 1 kernels, 0 deviations from src/cuda/kernels.tsv\n")


@pytest.mark.parametrize(("change", "word"), [({"spills": 9}, "spilled bytes 9, the table says 8"),
                                              ({"shared": 512}, "static shared memory 512, the table says 256"),
                                              ({"name": "_Z3subPf"}, "sub(float*) (sm_90a) is not in the table")])
def test_what_is_worse_or_new_is_said(tree, change, word):
    build(tree, **change)
    code, text = run(tree, "check")
    assert code == 1 and word in text


def test_what_is_better_passes(tree):
    build(tree, spills=0, shared=0)
    assert run(tree, "check")[0] == 0


def test_a_tree_without_logs_is_said(tree):
    (tree / "build/add.cu.o.ptxas").unlink()
    code, text = run(tree, "check")
    assert code == 1 and "build with CUDA first" in text
