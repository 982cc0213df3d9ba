"""Sphinx's configuration. tools/docs runs it, over the whole project: READMEs are pages too."""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/docs-work"
BUILD = ROOT / os.environ.get("SLUICE_BUILD", "build/release")
sys.path[:0] = [str(ROOT / "docs"), str(BUILD / "python")]

project = "sluice"
release = re.search(r"project\(sluice VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
language = "en"
root_doc = "docs/index"
include_patterns = ["**/*.md", "*.md"]
exclude_patterns = ["build*", ".*", "**/.*", "**/__pycache__", "tests/fuzz/corpus", "demo-out", "shared"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "breathe", "extension.directives",
              "extension.theme"]
myst_heading_anchors = 4
# A README may begin with a smaller heading than the page that shows a part of it.
suppress_warnings = ["myst.header"]

sluice_program = str(BUILD / "tools/sluice")
sluice_drawings = str(WORK / "extra/drawings")
breathe_projects = {"sluice": str(WORK / "xml")}
breathe_default_project = "sluice"
breathe_default_members = ("members", "undoc-members")
# PyTorch need not be there to read what sluice.torch says of itself.
autodoc_mock_imports = ["torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_custom_sections = [("Fields", "params_style")]

html_theme = "furo"
html_title = f"sluice {release}"
html_static_path = ["static"]
html_css_files = ["sluice.css"]
html_extra_path = [str(WORK / "extra")]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
# Summaries are fetched, which browsers do not allow a page that is a file.
html_show_search_summary = False
highlight_language = "none"
