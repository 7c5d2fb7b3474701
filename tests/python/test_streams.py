# SPDX-License-Identifier: Apache-2.0
"""The dhyan command where a shell, a pipe or a terminal treats it badly: what it leaves, and how it ends."""
import json
import os
import signal
import subprocess

import pytest

PROGRAM = os.environ["DHYAN_PROGRAM"]


def shell(command, folder):
    """The exit code of a shell command in which $DHYAN is the program."""
    return subprocess.run(["bash", "-c", command], cwd=folder, env=os.environ | {"DHYAN": PROGRAM}, stdin=subprocess.DEVNULL).returncode


def results(folder):
    return json.loads((folder / "lab-report" / "results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("streams, code", [(">&-", 3), (">&- 2>&- <&-", 3), ("2>&-", 0), ("2>/dev/full", 0)])
def test_a_lost_stream_harms_no_file(tmp_path, streams, code):
    assert shell(f"$DHYAN lab --steps 0 {'' if '>&-' in streams[:3] else '>/dev/null'} {streams}", tmp_path) == code
    assert results(tmp_path)["complete"]
    assert (tmp_path / "lab-report" / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-"])
def test_a_refusal_that_nobody_can_read_has_its_exit_code(tmp_path, streams):
    assert shell(f"$DHYAN lab --steps x {streams}", tmp_path) == 2


def test_a_reader_that_leaves_early_costs_no_report(tmp_path):
    assert shell("$DHYAN lab --quick --steps 0-4 --repeats 1 2>/dev/null | head -1 >/dev/null; exit ${PIPESTATUS[0]}", tmp_path) == 3
    assert results(tmp_path)["complete"]


def test_a_lost_terminal_leaves_what_was_measured(tmp_path):
    with subprocess.Popen([PROGRAM, "lab", "--steps", "0,7", "--repeats", "1000"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as lab:
        lab.stdout.readline()
        lab.send_signal(signal.SIGHUP)
        lab.communicate(timeout=60)
        assert lab.returncode == 130
    assert not results(tmp_path)["complete"]
    assert not list(tmp_path.rglob("*.part"))


def test_nohup_is_obeyed(tmp_path):
    with subprocess.Popen(["nohup", PROGRAM, "lab", "--quick", "--steps", "0,3", "--repeats", "1"], cwd=tmp_path,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as lab:
        lab.stdout.readline()
        lab.send_signal(signal.SIGHUP)
        lab.communicate(timeout=60)
        assert lab.returncode == 0
    assert results(tmp_path)["complete"]


def test_the_page_names_its_argument_when_it_cannot_be_written(tmp_path):
    assert shell("$DHYAN lab --steps 0 >/dev/null", tmp_path) == 0
    for name, code in (("", 2), ("nowhere/page.html", 3)):
        done = subprocess.run([PROGRAM, "report", "lab-report/results.json", "--out", name], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1)
        assert "--out: " in done.stderr


def test_a_working_folder_that_is_gone_is_not_needed(tmp_path):
    assert shell("$DHYAN lab --steps 0 >/dev/null", tmp_path) == 0
    results_file, page = tmp_path / "lab-report" / "results.json", tmp_path / "page.html"
    assert shell(f"mkdir gone && cd gone && rmdir ../gone && $DHYAN report {results_file} --out {page}", tmp_path) == 0
    assert shell(f"mkdir gone && cd gone && rmdir ../gone && $DHYAN report {results_file} {results_file} --out {page}", tmp_path) == 0
    gone = subprocess.run(["bash", "-c", f"mkdir gone && cd gone && rmdir ../gone && {PROGRAM} report {results_file}"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert gone.returncode == 3 and "--out: report.html cannot be written" in gone.stderr
