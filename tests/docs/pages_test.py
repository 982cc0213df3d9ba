#!/usr/bin/env python3
"""Pages of the site: links, anchors, excerpts and headers are there, and no page is forgotten. Needs no Sphinx.

    tests/docs/pages_test.py
"""
import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from extension import pages  # noqa: E402

# As conf.py has it: every Markdown file is a page, but for test data.
DATA = "tests/fuzz/corpus/"
HEADINGS = {}


def in_project():
    """The Markdown files of the project: all that are not built."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith((".", "build", "demo-out", "shared"))]
        found += [pathlib.Path(folder) / name for name in files if name.endswith(".md")]
    return sorted(page for page in found if not str(page.relative_to(ROOT)).startswith(DATA))


PROJECT = in_project()
PAGES = [page for page in PROJECT if page.is_relative_to(ROOT / "docs")]


def anchors(page):
    if page not in HEADINGS:
        HEADINGS[page] = {pages.slug(title) for _, title in pages.headings(page.read_text())}
    return HEADINGS[page]


def fences(name):
    """(page, fence) of every fence of that directive in docs/."""
    return [(page, fence) for page in PAGES for fence in pages.fences(page.read_text()) if fence.name == name]


def broken(page, text):
    """The links of `text` that lead nowhere from `page`."""
    found = []
    for link in pages.links(text):
        if pages.is_outside(link):
            continue
        path, _, anchor = link.partition("#")
        target = pathlib.Path(os.path.normpath(page.parent / path)) if path else page
        if not target.is_file() or anchor and target.suffix == ".md" and anchor not in anchors(target):
            found.append(link)
    return found


class Reading(unittest.TestCase):
    # A longer fence around a shorter one, which neither closes it nor is a fence of its own.
    TEXT = ("before\n````{commands}\n:exit: '2'\n# not a heading\n```\n[a](b)\n```\n````\n[c](d)\n~~~\n```\n# nor this\n~~~\n"
            "## Heading ##\nbehind\n")

    def test_of_lines_says_where_a_fence_is(self):
        parts = [part for _, _, part in pages.marked_lines(self.TEXT)]
        self.assertEqual(parts, [None, "opens", *["inside"] * 5, "closes", None, "opens", "inside", "inside", "closes",
                                 None, None])
        self.assertEqual([number for number, _, _ in pages.marked_lines(self.TEXT)], list(range(1, 16)))

    def test_of_fences(self):
        first, second = pages.fences(self.TEXT)
        self.assertEqual(first, pages.Fence("commands", "", {"exit": "2"}, ["# not a heading", "```", "[a](b)", "```"], 2))
        self.assertEqual(second, pages.Fence(None, "", {}, ["```", "# nor this"], 10))
        with self.assertRaisesRegex(ValueError, "line 2: this fence is never closed"):
            pages.fences("a\n```\nb\n")

    def test_of_links_and_headings_leaves_out_fences(self):
        self.assertEqual(pages.links(self.TEXT), ["d"])
        self.assertEqual(pages.headings(self.TEXT), [(2, "Heading")])
        self.assertEqual(pages.before_heading(self.TEXT), self.TEXT.partition("\n## ")[0])


class Links(unittest.TestCase):
    def test_lead_somewhere(self):
        self.assertGreater(sum(len(pages.links(page.read_text())) for page in PROJECT), 250)
        for page in PROJECT:
            self.assertEqual(broken(page, page.read_text()), [], page.relative_to(ROOT))

    def test_of_excerpts_lead_somewhere_too(self):
        found = fences("excerpt")
        self.assertGreater(len(found), 7)
        for page, fence in found:
            source = pathlib.Path(os.path.normpath(page.parent / fence.argument))
            text = pages.moved(pages.excerpt(source, fence.options), source, page)
            self.assertGreater(len(text.split()), 20, f"{page}, line {fence.line}")
            self.assertEqual(broken(page, text), [], f"{page}, line {fence.line}")

    def test_what_is_broken_is_found(self):
        page = ROOT / "docs/index.md"
        text = "[a](catalogue.md) [b](absent.md) [c](../README.md#numbers) [d](../README.md#absent) [e](formats) `[f](g)`"
        self.assertEqual(broken(page, text), ["absent.md", "../README.md#absent", "formats"])


class Contents(unittest.TestCase):
    def test_every_page_is_in_one(self):
        reached, waiting = set(), [ROOT / "docs/index.md"]
        while waiting:
            page = waiting.pop()
            if page not in reached:
                reached.add(page)
                for entry in pages.contents(page):
                    self.assertTrue(entry.is_file(), f"{page.relative_to(ROOT)} names {entry.relative_to(ROOT)}")
                    waiting.append(entry)
        self.assertEqual([str(page.relative_to(ROOT)) for page in PROJECT if page not in reached], [])

    def test_every_page_has_one_title(self):
        for page in PROJECT:
            self.assertEqual([level for level, _ in pages.headings(page.read_text())].count(1), 1, page.relative_to(ROOT))


class Shown(unittest.TestCase):
    def test_files_are_there(self):
        for name in ("image", "literalinclude"):
            self.assertTrue(fences(name))
            for page, fence in fences(name):
                self.assertTrue((page.parent / fence.argument).is_file(), f"{page}, line {fence.line}")

    def test_headers_are_there_in_rooms_that_are_installed(self):
        found = [fence.argument for _, fence in fences("doxygenfile")]
        self.assertEqual(len(found), len(set(found)))
        self.assertGreater(len(found), 20)
        for header in found:
            self.assertTrue((ROOT / header).is_file(), header)
            self.assertIn(header.split("/")[0], ("schedules", "models", "partitioner", "pipeline", "comm"))

    def test_directives_are_known(self):
        known = {"commands", "excerpt", "catalogue", "help", "toctree", "image", "literalinclude", "doxygenfile", "eval-rst"}
        for page in PAGES:
            for fence in pages.fences(page.read_text()):
                self.assertIn(fence.name, known | {None}, f"{page}, line {fence.line}")


class HeaderComments(unittest.TestCase):
    def filtered(self, text):
        file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "a.h"
        file.write_text(text)
        done = subprocess.run([sys.executable, ROOT / "docs/cpp/comments.py", file], capture_output=True, text=True, check=True)
        return done.stdout

    def test_become_what_doxygen_reads(self):
        self.assertEqual(self.filtered("#include <b.h>\n\n// Of the file.\nnamespace sluice {\n\n// Of nothing.\n\n"
                                       "// Above, `a<b>` and c<d>.\nstruct A {\n  int a = 0;  // behind,\n"
                                       "              // and below it\n  // Above.\n  int b;\n};\n}  // namespace sluice\n"),
                         "#include <b.h>\n/// \\file\n/// Of the file.\n\n\n// Of nothing.\n\n"
                         "/// Above, `a<b>` and c\\<d\\>.\nstruct A {\n  int a = 0;  ///< behind,\n"
                         "              ///< and below it\n  /// Above.\n  int b;\n};\n\n")


# The sections of a docstring whose lines are entries, "name: text" or "name, name: text"; what goes on is indented further.
ENTRIES = re.compile(r"(Args|Attributes|Fields|Raises):$")
ENTRY = re.compile(r"    \*{0,2}[\w.]+(, \*{0,2}[\w.]+)*: \S|     ")


def no_entries(docstring):
    """The lines of `docstring` that stand where the site shows an entry, and are none."""
    found, inside = [], False
    for line in docstring.splitlines():
        if line and not line.startswith(" "):
            inside = ENTRIES.match(line) is not None
        elif inside and line and not ENTRY.match(line):
            found.append(line)
    return found


class DocStrings(unittest.TestCase):
    def test_name_what_they_list(self):
        seen = 0
        for file in sorted((ROOT / "python/sluice").glob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    docstring = ast.get_docstring(node) or ""
                    seen += len(re.findall(r"(?m)^Args:$", docstring))
                    self.assertEqual(no_entries(docstring), [], f"{file.name}: {getattr(node, 'name', 'the module')}")
        self.assertGreater(seen, 10)

    def test_what_is_no_entry_is_found(self):
        text = ("Sums.\n\nArgs:\n    a: one\n        of them; or: two.\n    b, *c: more\n    d,\n        e: last\n\n"
                "Returns:\n    all of it\n")
        self.assertEqual(no_entries(text), ["    d,"])


class Complaints(unittest.TestCase):
    def test_there_are_fifteen_each_with_a_command(self):
        text = (ROOT / "docs/complaints.md").read_text()
        parts = re.split(r"(?m)^### ", text)[1:]
        self.assertEqual(len(parts), 15)
        for part in parts:
            self.assertEqual(len(re.findall(r"(?m)^```\{commands\}$", part)), 1, part.splitlines()[0])
            self.assertIn("](https://", part, part.splitlines()[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
