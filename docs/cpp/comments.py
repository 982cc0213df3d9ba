#!/usr/bin/env python3
"""Doxygen's input filter: makes of the comments of a header what Doxygen reads, and leaves lines where they are.

A comment above a declaration becomes `///`; one behind a declaration, with the lines below it at the same column, `///<`.
The namespace, which is that of everything, is left out, so that it is not in front of every name.
"""

import re
import sys


def escaped(comment):
    """Not Doxygen's commands, nor HTML, outside of backticks."""
    parts = re.split(r"(`[^`]*`)", comment)
    return "".join(part if part.startswith("`") else re.sub(r"([<>@\\#%&])", r"\\\1", part) for part in parts)


def filtered(lines):
    column = None  # of the comment behind a declaration above
    for line in lines:
        alone = re.match(r"(\s*)//(?!/)(.*)", line)
        behind = re.match(r"(.*[;,\w)]\s*?)(\s+)//(?!/)(.*)", line)
        if alone:
            mark = "///<" if column == len(alone[1]) else "///"
            if mark == "///":
                column = None
            yield f"{alone[1]}{mark}{escaped(alone[2])}"
        elif behind and not re.match(r"\s*(}|#)", line) and not behind[1].rstrip().endswith(("namespace", "{")):
            column = len(behind[1]) + len(behind[2])
            yield f"{behind[1]}{behind[2]}///<{escaped(behind[3])}"
        else:
            column = None
            yield "" if re.match(r"(namespace sluice \{|\}  // namespace sluice)", line) else line


if __name__ == "__main__":
    with open(sys.argv[1]) as header:
        print("\n".join(filtered(header.read().splitlines())))
