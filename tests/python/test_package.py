"""What the package is made of."""

import ast
import doctest
import pathlib
import subprocess

import sluice
import sluice._core

FOLDER = pathlib.Path(sluice.__file__).parent


def test_the_module_needs_no_library_that_computes_or_sends():
    listed = subprocess.run(
        ["readelf", "-d", sluice._core.__file__], capture_output=True, text=True, check=True
    )
    needed = [line.split("[")[1][:-1] for line in listed.stdout.splitlines() if "(NEEDED)" in line]
    assert any(name.startswith("libstdc++") for name in needed)
    for name in needed:
        assert not name.startswith(
            ("libdnnl", "libmpi", "libcuda", "libnccl", "libgomp", "libssl", "libicu", "libOpenCL")
        ), name
    # Nor is anything of the rooms left open, which would show only when it is called.
    symbols = subprocess.run(
        ["nm", "-DC", "--undefined-only", sluice._core.__file__],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "sluice::" not in symbols.stdout and "dnnl" not in symbols.stdout


def test_it_is_typed_and_described():
    assert (FOLDER / "py.typed").exists()
    for name in sluice.__all__:
        assert getattr(sluice, name).__doc__, name
    for public in (sluice.Timetable, sluice.Plan, sluice.Trainer, sluice.Callback):
        for name, member in vars(public).items():
            if not name.startswith("_"):
                assert member.__doc__, f"{public.__name__}.{name}"


def test_the_stub_has_what_the_module_has():
    stub = ast.parse((FOLDER / "_core.pyi").read_text())
    names = {
        node.name: {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        if isinstance(node, ast.ClassDef)
        else set()
        for node in stub.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    names["version"] = set()
    assert set(names) == {name for name in vars(sluice._core) if not name.startswith("_")}
    assert sluice.__version__.count(".") == 2
    for name, members in names.items():
        if members:
            public = {m for m in vars(getattr(sluice._core, name)) if not m.startswith("_")}
            assert members == public, name


def test_numpy_is_not_needed_to_import():
    code = (
        "import sys; sys.modules['numpy'] = None; import sluice; "
        "print(sluice.schedule('1f1b', ranks=2, micro_batches=2).makespan)"
    )
    done = subprocess.run(
        [__import__("sys").executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "9.0\n"


def test_the_examples_print_what_the_readme_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = pathlib.Path(__file__).parents[2] / "python" / "README.md"
    text = "\n".join(
        block.split("```")[0] for block in readme.read_text().split("```python\n")[1:]
    )
    # Empty lines within what is printed stand as they are in the README.
    test = doctest.DocTestParser().get_doctest(
        text.replace("\n\n ", "\n<BLANKLINE>\n ").replace("\n\nbubble:", "\n<BLANKLINE>\nbubble:"),
        {}, "README.md", str(readme), 0,
    )
    assert len(test.examples) > 15
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failures = []
    runner.run(test, out=failures.append)
    assert not failures, "".join(failures)
