#!/usr/bin/env python3
"""Doxygen's input filter: makes of the comments of a header what Doxygen reads, and leaves lines where they are.

A comment above a declaration becomes `///`; one behind a declaration, with the lines below it at the same column, `///<`. One
above the namespace is about the file; one above an empty line is left alone. The namespace, which is that of everything, is
left out, so that it is not in front of every name.
"""

import re
import sys

ALONE = re.compile(r"(\s*)//(?!/)(.*)")
# Behind a field, a value or a parameter; not behind `{`, `}` or a directive.
BEHIND = re.compile(r"(?!\s*[}#])(.*[;,\w)]\s*?)(\s+)//(?!/)(.*)")
NAMESPACE = re.compile(r"(namespace sluice \{|\}  // namespace sluice)")


def escaped(comment):
    """Without Doxygen's commands and HTML, outside of backticks."""
    parts = re.split(r"(`[^`]*`)", comment)
    return "".join(part if part.startswith("`") else re.sub(r"([<>@\\#%&])", r"\\\1", part) for part in parts)


def filtered(lines):
    """The lines of a header, as many as there were."""
    result, column, number = [], None, 0  # column: of the comment behind a declaration above
    while number < len(lines):
        line = lines[number]
        alone, behind = ALONE.match(line), BEHIND.match(line)
        if alone and column == len(alone[1]):
            result.append(f"{alone[1]}///<{escaped(alone[2])}")
        elif alone:
            column = None
            block = []
            while number < len(lines) and (comment := ALONE.match(lines[number])):
                block.append(comment)
                number += 1
            follows = lines[number] if number < len(lines) else ""
            if NAMESPACE.match(follows) and result and not result[-1]:
                result[-1] = "/// \\file"
            mark = "///" if follows.strip() else "//"
            result += [f"{comment[1]}{mark}{escaped(comment[2])}" for comment in block]
            continue
        elif behind:
            column = len(behind[1]) + len(behind[2])
            result.append(f"{behind[1]}{behind[2]}///<{escaped(behind[3])}")
        else:
            column = None
            result.append("" if NAMESPACE.match(line) else line)
        number += 1
    return result


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(filtered(header.read().splitlines())))
