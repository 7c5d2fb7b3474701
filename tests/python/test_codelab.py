# SPDX-License-Identifier: Apache-2.0
"""docs/codelab.md and docs/codelab.hi.md walk through examples/codelab: what they quote is there, and what they show is printed."""
import os
import re
import subprocess
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/codelab"
BINARIES = Path(os.environ["DHYAN_PROGRAM"]).parent
DOCUMENTS = [ROOT / "docs/codelab.md", ROOT / "docs/codelab.hi.md"]
PROGRAMS = sorted(file.name for file in EXAMPLES.glob("*.cpp"))


def blocks(document):
    """(language, file of the codelab linked last before it, text) of each fenced block."""
    file, result, fence = None, [], None
    for line in document.read_text().splitlines():
        if line.startswith("```"):
            if fence is None:
                fence = (line[3:], file, [])
            else:
                result.append((fence[0], fence[1], "\n".join(fence[2])))
                fence = None
        elif fence is not None:
            fence[2].append(line)
        else:
            for name in re.findall(r"\]\(\.\./examples/codelab/([^)]+)\)", line):
                file = name
    assert fence is None
    return result


def prose(document):
    return re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.M | re.S)


def anchor(heading):
    """As GitHub makes them: letters, marks, digits and hyphens stay, spaces become hyphens."""
    kept = [c for c in heading.strip().lower() if c in " -_" or unicodedata.category(c)[0] in "LMN"]
    return "".join(kept).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_covers_every_step_and_program(document):
    steps = [int(n) for n in re.findall(r"^## (?:Step|कदम) (\d+): \S", prose(document), flags=re.M)]
    assert steps == list(range(13))
    linked = re.findall(r"\[([^\]]+)\]\(\.\./examples/codelab/([^)]+)\)", prose(document))
    assert all(text == file for text, file in linked)
    assert list(dict.fromkeys(file for _, file in linked if file.endswith(".cpp"))) == PROGRAMS
    assert len(PROGRAMS) > 10


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_code_is_that_of_the_examples(document):
    excerpts = [(file, text) for language, file, text in blocks(document) if language == "cpp"]
    assert len(excerpts) >= 10
    for file, text in excerpts:
        assert f"\n{text}\n" in (EXAMPLES / file).read_text(), f"{file} has no such lines:\n{text}"


def test_both_languages_show_the_same_code_and_output():
    english, hindi = (blocks(document) for document in DOCUMENTS)
    assert english == hindi


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document):
    text = prose(document)
    anchors = [anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, flags=re.M)]
    assert len(set(anchors)) == len(anchors)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors
        else:
            assert (document.parent / target).exists(), target


def test_output_is_what_the_programs_print():
    """Numbers aside, which are the machine's, and what it and the build say of a GPU; every line shown is printed, in this order."""

    def words(line):
        line = re.sub(r"^(device: )?cuda:0.*", "cuda", line)
        return " ".join(re.sub(r"\d+(\.\d+)?(e[+-]\d+)?", "#", line).split())

    shown = {file: text for language, file, text in blocks(DOCUMENTS[0]) if language == "text"}
    assert sorted(shown) == PROGRAMS
    for file, text in shown.items():
        program = BINARIES / f"client_{file.replace('.', '_')}"
        done = subprocess.run([program], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        printed = iter([words(line) for line in done.stdout.splitlines()])
        for line in text.splitlines():
            assert words(line) in printed, f"{file} does not print, here: {line}\n{done.stdout}"
