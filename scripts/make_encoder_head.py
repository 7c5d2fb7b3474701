#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes app/lab/encoder_head.cpp: Q and K of one encoder head, for the heat maps of the lab.

  scripts/make_encoder_head.py      reads tests/data/minilm.safetensors; needs numpy and safetensors
"""
from pathlib import Path

from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parent.parent
ENTRY, TOKENS, HEAD = 2, 37, 0
NUMBERS_A_LINE = 8


def literal(value):
    """The shortest decimal that reads back as the same float32."""
    text = str(value)
    return text + ("F" if "." in text or "e" in text else ".0F")


def array(name, values):
    words = [literal(value) for value in values.reshape(-1)]
    lines = [", ".join(words[at : at + NUMBERS_A_LINE]) for at in range(0, len(words), NUMBERS_A_LINE)]
    body = ",\n    ".join(lines)
    return f"const std::array<float, encoder_tokens * encoder_width> {name} = {{\n    {body}}};\n"


def main():
    tensors = load_file(ROOT / "tests/data/minilm.safetensors")
    parts = [array(f"encoder_{name}", tensors[name][ENTRY, :TOKENS, HEAD]) for name in ("query", "key")]
    text = "// SPDX-License-Identifier: Apache-2.0\n// Made by scripts/make_encoder_head.py.\n// clang-format off\n"
    text += '#include "lab/encoder_head.hpp"\n\nnamespace dhyan::lab {\n\n' + "\n".join(parts) + "\n}  // namespace dhyan::lab\n"
    (ROOT / "app/lab/encoder_head.cpp").write_text(text)


if __name__ == "__main__":
    main()
