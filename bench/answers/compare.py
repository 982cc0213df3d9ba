"""Says in which lines two answers differ."""
import difflib
import hashlib
import re

MOST_LINES = 12  # of one difference
WIDE = 200       # of a line that is shown whole


def in_lines(text):
    """Breaks long lines, such as those of JSON and pictures, so that a difference is not the whole line."""
    pieces = []
    for line in text.splitlines():
        pieces += [line] if len(line) <= WIDE else re.sub(r'([,>}])', '\\1\n', line).split('\n')
    return pieces


def describe(data):
    return f'{len(data):,} bytes, {hashlib.sha256(data).hexdigest()[:16]}'


def first_lines(lines):
    shown = [f'    {line[:WIDE]}' for line in lines[:MOST_LINES]]
    return shown + [f'    and {len(lines) - MOST_LINES} lines more'] * (len(lines) > MOST_LINES)


def changes(before, after):
    """The lines in which two texts differ, or two contents of which one is not text."""
    if isinstance(before, bytes) or isinstance(after, bytes):
        before, after = (part if isinstance(part, bytes) else part.encode('utf-8', 'surrogateescape')
                         for part in (before, after))
        return [f'-{describe(before)}', f'+{describe(after)}']
    lines = list(difflib.unified_diff(in_lines(before), in_lines(after), lineterm='', n=0))[2:]
    return [line for line in lines if not line.startswith('@@')] or ['(only in the ends of lines)']


def difference(name, before, after):
    """Lines that say how one part of two answers differs; None where an answer has no such part."""
    if before is None or after is None:
        part, sign, which = (after, '+', 'after') if before is None else (before, '-', 'before')
        lines = [describe(part)] if isinstance(part, bytes) else in_lines(part)
        return [f'  {name}: only {which}', *first_lines([sign + line for line in lines])]
    return [f'  {name}:', *first_lines(changes(before, after))]


def differences(before, after):
    """The same for all parts."""
    lines = []
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            lines += difference(name, before.get(name), after.get(name))
    return lines
