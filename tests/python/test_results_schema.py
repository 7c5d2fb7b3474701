# SPDX-License-Identifier: Apache-2.0
"""docs/results-schema.json describes what the lab writes, and nothing that breaks its rules."""
import copy
import json
import os
import pathlib
import subprocess

import jsonschema
import pytest

PROGRAM = os.environ["DHYAN_PROGRAM"]
SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "docs" / "results-schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture(scope="module")
def real_results(tmp_path_factory):
    """A real run's results.json."""
    folder = tmp_path_factory.mktemp("lab") / "report"
    done = subprocess.run([PROGRAM, "lab", "--quick", "--out", folder], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def shortened(value):
    """Of long lists of the same the first two: the schema counts none of them, and each test looks at many copies."""
    if isinstance(value, dict):
        return {name: shortened(child if name in ("steps", "blocks") or not isinstance(child, list) else child[:2])
                for name, child in value.items()}
    return [shortened(child) for child in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def results(real_results):
    return shortened(real_results)


def places(value, path=()):
    """The paths of all members and items, but for those of machine and settings, which have no rules of their own."""
    if path in (("machine",), ("settings",)):
        return
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield (*path, name)
        yield from places(child, (*path, name))


def parent_of(document, path):
    for name in path[:-1]:
        document = document[name]
    return document


def kinds(document):
    """One path of each kind: those that differ by an index alone are one, but for blocks, each of whose types counts."""
    found = {}
    for path in places(document):
        kind, value = [], document
        for name in path:
            value = value[name]
            kind.append("" if isinstance(name, int) else name)
            if isinstance(value, dict) and "type" in value:
                kind.append(value["type"] + value.get("kind", ""))
        found.setdefault(tuple(kind), path)
    return found.values()


def refused(document):
    return not VALIDATOR.is_valid(document)


def changed(document, path, change):
    """A copy with the parent of `path` changed."""
    other = copy.deepcopy(document)
    change(parent_of(other, path), path[-1])
    return other


def test_schema_is_valid_and_describes_everything():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for definition in (SCHEMA, *SCHEMA["$defs"].values()):
        assert definition["description"]


def test_a_real_run_follows_the_schema(real_results):
    for results in (real_results, shortened(real_results)):
        for error in VALIDATOR.iter_errors(results):
            pytest.fail(f"{error.json_path}: {error.message}")
    assert results["complete"] and results["schema_version"] == 1
    assert {"table", "chart"} <= {block["type"] for step in results["steps"] for block in step["blocks"]}


def test_each_member_is_required(results):
    members = [path for path in kinds(results) if isinstance(parent_of(results, path), dict)]
    assert len(members) > 60
    for path in members:
        assert refused(changed(results, path, lambda parent, name: parent.pop(name))), path


def test_no_other_member_is_allowed(results):
    assert refused({**results, "more": 1})
    for path in kinds(results):
        if isinstance(parent_of(results, path)[path[-1]], dict) and path not in (("machine",), ("settings",)):
            assert refused(changed(results, path, lambda parent, name: parent[name].update(more=1))), path


def test_each_member_has_one_type(results):
    for path in kinds(results):
        wrong = "true" if isinstance(parent_of(results, path)[path[-1]], bool) else True
        assert refused(changed(results, path, lambda parent, name: parent.__setitem__(name, wrong))), path


@pytest.mark.parametrize("path, value", [
    (("schema_version",), 2),
    (("created",), "yesterday"),
    (("settings", "repeats"), 20),
    (("steps", 0, "outcome"), "perhaps"),
    (("verdict", "passed"), -1),
])
def test_wrong_values_are_refused(results, path, value):
    assert refused(changed(results, path, lambda parent, name: parent.__setitem__(name, value)))
