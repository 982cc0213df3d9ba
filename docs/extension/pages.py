"""What stands in a Markdown file: fences, headings, links, tables of contents, and parts that another page shows."""

import dataclasses
import os
import pathlib
import re

FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(.*)$")


@dataclasses.dataclass(frozen=True)
class Fence:
    """A block between ``` lines. `name` is that of a directive, such as "commands" of ```{commands}, else None."""

    name: str
    argument: str
    options: dict
    lines: list
    line: int


def unquoted(value):
    """The value of an option, as YAML has it in single or double quotes, or in none."""
    return value.strip()[1:-1] if re.fullmatch(r"'.*'|\".*\"", value.strip()) else value.strip()


def marked_lines(text):
    """(number, line, part) of every line. `part` is "opens", "inside" or "closes" in a fence, and None outside of all."""
    opened = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if opened is None:
            opened = mark and mark[2]
            yield number, line, "opens" if mark else None
        elif mark and mark[2].startswith(opened) and not mark[3]:
            opened = None
            yield number, line, "closes"
        else:
            yield number, line, "inside"


def fences(text):
    """Every fence of `text`."""
    found, begin = [], None
    for number, line, part in marked_lines(text):
        if part == "opens":
            info, begin, lines = FENCE.match(line)[3], number, []
        elif part == "inside":
            lines.append(line)
        elif part == "closes":
            found.append(fence_of(info, lines, begin))
            begin = None
    if begin is not None:
        raise ValueError(f"line {begin}: this fence is never closed")
    return found


def fence_of(info, lines, begin):
    """The fence that line `begin` opens with `info` behind the mark; options of a directive come before its lines."""
    directive = re.match(r"\{([\w-]+)\}\s*(.*)", info)
    options = {}
    while directive and lines and (option := re.match(r":([\w-]+):\s*(.*)", lines[0])):
        options[option[1]] = unquoted(option[2])
        lines = lines[1:]
    return Fence(directive[1] if directive else None, directive[2] if directive else info, options, lines, begin)


def prose(text):
    """`text` without fences, indented blocks and inline code: what a reader of Markdown looks for links and headings in."""
    kept, blank = [], True
    for _, line, part in marked_lines(text):
        if part is None and not (line.startswith("    ") and blank):
            kept.append(line)
        blank = blank and line.startswith("    ") or not line.strip()
    return re.sub(r"(`+)(?!`).*?\1", "", "\n".join(kept), flags=re.DOTALL)


def headings(text):
    """(level, title) of every heading."""
    outside = (line for _, line, part in marked_lines(text) if part is None)
    found = (re.match(r"(#{1,6})\s+(.*?)\s*#*$", line) for line in outside)
    return [(len(heading[1]), heading[2]) for heading in found if heading]


def slug(title):
    """The anchor of a heading, as GitHub and MyST make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def links(text):
    """The targets of all links and images, as they are written."""
    return re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", prose(text))


def is_outside(link):
    return re.match(r"[a-z]+:", link) is not None


def contents(page):
    """The Markdown files that the tables of contents of `page` name."""
    found = []
    for fence in fences(page.read_text()):
        for entry in filter(str.strip, fence.lines if fence.name == "toctree" else []):
            up, name = re.match(r"((?:\.\./)*)(.*)", re.sub(r".*<(.*)>$", r"\1", entry.strip())).groups()
            folder = (page.parent / up).resolve()
            found += sorted(folder.glob(f"{name}.md".replace("**.md", "**/*.md"))) if "*" in name else [folder / f"{name}.md"]
    return found


def excerpt(path, options):
    """A part of the Markdown file `path`: with `heading` what stands below that heading, up to the next one; within that,
    with `from` what begins with this text, and with `to` what stands before that one."""
    text = path.read_text()
    if unknown := set(options) - {"heading", "from", "to"}:
        raise ValueError(f"{path}: an excerpt has no option {unknown}; it has heading, from and to")
    if heading := options.get("heading"):
        parts = re.split(rf"^#+ {re.escape(heading)}\s*$", text, flags=re.MULTILINE)
        if len(parts) != 2:
            raise ValueError(f"{path}: the heading '{heading}' is there {len(parts) - 1} times instead of once")
        text = before_heading(parts[1])
    if begin := options.get("from"):
        if begin not in text:
            raise ValueError(f"{path}: '{begin}' is not there")
        text = text[text.index(begin):]
    if end := options.get("to"):
        if end not in text[1:]:
            raise ValueError(f"{path}: '{end}' is not there, after the beginning")
        text = text[:text.index(end, 1)]
    return text.strip("\n") + "\n"


def before_heading(text):
    """`text` up to the first heading; a # within a fence is none."""
    kept = []
    for _, line, part in marked_lines(text):
        if part is None and re.match(r"#{1,6} ", line):
            break
        kept.append(line)
    return "\n".join(kept)


def moved(text, source, target):
    """`text` of the file `source` with its links as they must be written in the file `target`."""
    def move(found):
        link = found[2]
        if is_outside(link) or link.startswith("#"):
            link = link if is_outside(link) else os.path.relpath(source, target.parent) + link
        else:
            link = os.path.relpath(source.parent / link, target.parent)
        return found[1] + link + found[3]
    return re.sub(r"(\]\(\s*)([^)\s]+)([^)]*\))", move, text)
