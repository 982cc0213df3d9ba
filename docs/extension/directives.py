"""Sphinx's side of it: the directives commands, excerpt, catalogue and help."""

import os
import pathlib

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from extension import commands, generated, pages


class _Directive(SphinxDirective):
    def markdown(self, text, source):
        """The nodes of Markdown text, with its headings as sections of this page."""
        node = nodes.Element()
        node.document = self.state.document
        self.state.nested_parse(StringList(text.splitlines(), source), 0, node, match_titles=True)
        return node.children

    @property
    def page(self):
        return pathlib.Path(self.env.doc2path(self.env.docname))


class Commands(_Directive):
    """Runs the commands of a block and shows them with what they print."""

    has_content = True
    option_spec = {"shows": str, "exit": str}

    def run(self):
        # One folder per page: a command finds what those before it have written.
        shells = self.env.temp_data.setdefault("sluice_shell", {})
        if self.env.docname not in shells:
            shells[self.env.docname] = commands.Shell(self.config.sluice_program).__enter__()
        try:
            block = commands.Block.read(self.options, list(self.content))
            lines = shells[self.env.docname].transcript(block)
        except commands.CommandError as error:
            raise self.error(str(error))
        # Sphinx highlights a block whose source is its text, so that what is in it is lost.
        shown = nodes.literal_block("commands", "", classes=["commands"])
        for number, (line, is_command) in enumerate(lines):
            shown += [nodes.Text("\n" if number else ""), nodes.strong(line, line) if is_command else nodes.Text(line)]
        return [shown]


class Excerpt(_Directive):
    """Shows a part of another Markdown file of the project."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"heading": str, "from": str, "to": str}

    def run(self):
        source = pathlib.Path(os.path.normpath(self.page.parent / self.arguments[0]))
        self.env.note_dependency(str(source))
        try:
            text = pages.excerpt(source, {name: value.strip('"') for name, value in self.options.items()})
        except (OSError, ValueError) as error:
            raise self.error(str(error))
        return self.markdown(pages.moved(text, source, self.page), str(source))


class Catalogue(_Directive):
    """All schedules, each with its drawing."""

    def run(self):
        text = generated.catalogue_page(self.config.sluice_program, pathlib.Path(self.config.sluice_drawings))
        return self.markdown(text, "the catalogue")


class Help(_Directive):
    """--help of all commands."""

    def run(self):
        return self.markdown(generated.help_page(self.config.sluice_program), "--help")


def _close_shells(app, _document):
    for shell in app.env.temp_data.pop("sluice_shell", {}).values():
        shell.__exit__()


def setup(app):
    app.add_config_value("sluice_program", None, "env")
    app.add_config_value("sluice_drawings", None, "env")
    for name, directive in (("commands", Commands), ("excerpt", Excerpt), ("catalogue", Catalogue), ("help", Help)):
        app.add_directive(name, directive)
    app.connect("doctree-read", _close_shells)
    # Drawings and the folders of commands belong to one process.
    return {"parallel_read_safe": False, "parallel_write_safe": True}
