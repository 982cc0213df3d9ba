#!/usr/bin/env python3
"""docs/formats says what the program reads: schemas and readers agree about the examples and about changes of them.

    tests/tools/formats_test.py build/release/tools/sluice
"""
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

FORMATS = pathlib.Path(__file__).resolve().parents[2] / "docs/formats"
PROGRAM = None
BAD_INPUT = 2
COMMANDS = {
    "device": "plan mlp --devices 2 --schedule 1f1b --micro-batches 2 --json --device {}",
    "cluster": "plan char-gpt --layers 4 --dim 64 --heads 8 --seq 16 --devices 24 --tensor-parallel 8 --schedule gpipe "
               "--micro-batches 1 --json --cluster {}",
    "costs": "schedule show 1f1b -p 4 -m 4 --json --costs {}",
}


def loaded(name):
    return json.loads((FORMATS / name).read_text())


def schema_of(format_name):
    """The schema, with the schemas of other files in place of their names."""
    text = (FORMATS / f"{format_name}.schema.json").read_text()
    inlined = re.sub(r'\{"\$ref": "(\w+\.schema\.json)"\}', lambda found: json.dumps(loaded(found[1])), text)
    return json.loads(inlined)


def places(value, path=()):
    """Every object, list and number in `value`, by path."""
    yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def changed(example, path, new):
    """`example` with `new` at `path`; without what is there where `new` is a list's or an object's deleted key."""
    result = copy.deepcopy(example)
    if not path:
        return new
    at(result, path[:-1])[path[-1]] = new
    return result


def without(example, path):
    result = copy.deepcopy(example)
    del at(result, path[:-1])[path[-1]]
    return result


def changes(example):
    """(what, changed example)"""
    for path, value in places(example):
        where = ".".join(map(str, path)) or "the document"
        if isinstance(value, dict):
            yield f"{where} with another field", changed(example, path, {**value, "other": 1})
            for key in value:
                yield f"{where} without {key}", without(example, (*path, key))
        if path and isinstance(path[-1], int) and path[-1] > 0 and not isinstance(value, dict):
            continue  # the other values of a list are like its first
        for new in ("text", {}, [], -1, 0, 0.5, 2e18):
            # How many values a list of costs has depends on the number of stages, which no schema knows.
            if path and not (isinstance(new, list) and isinstance(value, (list, int, float))):
                yield f"{where} = {new!r}", changed(example, path, new)


@unittest.skipIf(jsonschema is None, "python3-jsonschema is not there; tools/setup installs it")
class Formats(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.file = pathlib.Path(scratch.name) / "changed.json"

    def run_with(self, format_name, path):
        """(exit code, messages, whether the file was refused: not that it has too few devices for the command)"""
        done = subprocess.run([PROGRAM, *COMMANDS[format_name].format(path).split()], capture_output=True, text=True,
                              check=False)
        refused = done.returncode == BAD_INPUT and re.search(re.escape(str(path)) + "[:,] ", done.stderr) is not None
        return done.returncode, done.stderr, refused

    def test_examples_are_read_and_valid(self):
        for name in COMMANDS:
            jsonschema.Draft202012Validator.check_schema(schema_of(name))
            jsonschema.Draft202012Validator(schema_of(name)).validate(loaded(f"{name}.json"))
            self.assertEqual(self.run_with(name, FORMATS / f"{name}.json")[0], 0, name)

    def test_schemas_have_the_readers_fields(self):
        for name in COMMANDS:
            self.file.write_text(json.dumps({**loaded(f"{name}.json"), "other": 1}))
            _, error, refused = self.run_with(name, self.file)
            self.assertTrue(refused)
            listed = re.search(r"there are:? (.*)$", error.strip())[1].split(", ")
            self.assertEqual(set(listed), set(schema_of(name)["properties"]), name)

    def test_known_devices_are_the_programs(self):
        self.file.write_text(json.dumps(changed(loaded("cluster.json"), ("devices", 0, "device"), "none")))
        _, error, _ = self.run_with("cluster", self.file)
        listed = re.search(r"expected (.*), or an object", error)[1].split(", ")
        device = schema_of("cluster")["properties"]["devices"]["items"]["properties"]["device"]
        self.assertEqual(listed, device["oneOf"][0]["enum"])

    def test_schema_and_reader_agree_about_changes(self):
        for name in COMMANDS:
            validator = jsonschema.Draft202012Validator(schema_of(name))
            refusals = 0
            for what, document in changes(loaded(f"{name}.json")):
                self.file.write_text(json.dumps(document))
                code, error, refused = self.run_with(name, self.file)
                if what == "the document without between":  # which the example's several nodes need
                    self.assertTrue(refused)
                    continue
                with self.subTest(f"{name}: {what}"):
                    self.assertEqual(not refused, validator.is_valid(document), f"exit code {code}: {error}")
                refusals += refused
            self.assertGreater(refusals, 20)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
