#!/usr/bin/env python3
"""No knots of includes in the whole tree: units (a header and its own source counted as one) that include each other in a
circle. Where there is one, put the types that both need into a header of their own.
"""
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = ('schedules', 'models', 'comm', 'pipeline', 'partitioner', 'tools', 'tests', 'bench')
SUFFIXES = ('.h', '.cc', '.cu', '.cuh')
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def unit_of(path):
    """`comm/tcp/tcp` of comm/tcp/tcp.h."""
    return str(pathlib.PurePosixPath(path).with_suffix(''))


def includes(root):
    """What each unit includes, by the name of the unit; only units of the tree."""
    files = [path for top in TOP for path in (root / top).rglob('*') if path.suffix in SUFFIXES]
    arrows = {unit_of(path.relative_to(root).as_posix()): set() for path in files}
    for path in files:
        unit = unit_of(path.relative_to(root).as_posix())
        for name in INCLUDE.findall(path.read_text(encoding='utf-8')):
            if unit_of(name) in arrows and unit_of(name) != unit:
                arrows[unit].add(unit_of(name))
    return arrows


def knots(arrows):
    """The strongly connected components of more than one unit, each sorted (Tarjan 1972, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []

    def enter(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        on_stack.add(unit)
        return unit, iter(sorted(arrows[unit]))

    def leave(unit):
        if low[unit] != index[unit]:
            return
        at = stack.index(unit)
        component = stack[at:]
        del stack[at:]
        on_stack.difference_update(component)
        if len(component) > 1:
            found.append(sorted(component))

    for start in sorted(arrows):
        if start in index:
            continue
        path = [enter(start)]
        while path:
            unit, rest = path[-1]
            target = next(rest, None)
            if target is None:
                path.pop()
                leave(unit)
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[unit])
            elif target not in index:
                path.append(enter(target))
            elif target in on_stack:
                low[unit] = min(low[unit], index[target])
    return sorted(found)


class Knots(unittest.TestCase):
    def found_in(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, included in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(''.join(f'#include "{other}"\n' for other in included), encoding='utf-8')
            return knots(includes(pathlib.Path(folder)))

    def test_the_tree_has_none(self):
        self.assertEqual(knots(includes(ROOT)), [])

    def test_header_and_source_are_one(self):
        self.assertEqual(self.found_in({'comm/a.h': [], 'comm/a.cc': ['comm/a.h', 'comm/b.h'], 'comm/b.h': []}), [])

    def test_circle_through_a_source_is_found(self):
        files = {'comm/a.h': [], 'comm/a.cc': ['comm/a.h', 'comm/b.h'], 'comm/b.h': ['comm/c.h'], 'comm/c.h': ['comm/a.h'],
                 'comm/d.h': ['comm/a.h']}
        self.assertEqual(self.found_in(files), [['comm/a', 'comm/b', 'comm/c']])

    def test_two_circles_are_two_knots(self):
        files = {'tools/a.h': ['tools/b.h'], 'tools/b.h': ['tools/a.h', 'comm/c.h'], 'comm/c.h': ['comm/d.h'],
                 'comm/d.h': ['comm/c.h']}
        self.assertEqual(self.found_in(files), [['comm/c', 'comm/d'], ['tools/a', 'tools/b']])


if __name__ == '__main__':
    unittest.main()
