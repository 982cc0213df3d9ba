#!/usr/bin/env python3
"""bench/same_answers on a few commands: a program gives the same answers as itself, and every difference of another program is
found.

  tests/tools/same_answers_test.py BINARY [unittest's own arguments]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench'))
sys.dont_write_bytecode = True

from answers import blanks, compare, run  # noqa: E402  # found by the line above
from answers.case import ask  # noqa: E402

BINARY = None
HANDFUL = r'^schedule (list|show 1f1b -p 4 -m 8( -o out.txt)?|show 1f2b .*)$'
# Runs the program, and changes its answer to one of the commands of HANDFUL.
ALTERED = """#!{python}
import subprocess, sys
done = subprocess.run([{binary!r}, *sys.argv[1:]], capture_output=True)
out, err, code = done.stdout, done.stderr, done.returncode
if ' '.join(sys.argv[1:]) == {command!r}:
    {change}
sys.stdout.buffer.write(out)
sys.stderr.buffer.write(err)
sys.exit(code)
"""


def same_answers(*arguments):
    done = subprocess.run([sys.executable, ROOT / 'bench/same_answers', *arguments], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


class SameAnswers(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def program(self, text):
        path = self.folder / 'program'
        path.write_text(text, encoding='utf-8')
        path.chmod(0o755)
        return str(path)

    def altered(self, command, change):
        return self.program(ALTERED.format(python=sys.executable, binary=BINARY, command=command, change=change))

    def assert_found(self, command, change, *words):
        code, out, err = same_answers('--before', BINARY, '--after', self.altered(command, change), '--only', HANDFUL)
        self.assertEqual(out.splitlines()[-1:], ['3 equal, 1 differ'], out + err)
        self.assertEqual(code, 1)
        for word in (f'sluice {command}', *words):
            self.assertIn(word, out)

    def test_a_program_equals_itself(self):
        code, out, err = same_answers('--self', BINARY, '--only', f'{HANDFUL}|^train .*--schedule gpipe|^doctor')
        self.assertRegex(out, r'\A[1-9]\d* equal, 0 differ\n\Z')
        self.assertEqual((code, err), (0, ''))

    def test_finds_a_word(self):
        self.assert_found('schedule show 1f1b -p 4 -m 8', "out = out.replace(b'makespan', b'duration')",
                          'stdout of command 1', '-makespan 33', '+duration 33')

    def test_finds_an_error(self):
        self.assert_found('schedule show 1f2b -p 4 -m 8', "err = err.replace(b'mean', b'say')", 'stderr of command 1',
                          'did you say')

    def test_finds_an_exit_code(self):
        self.assert_found('schedule show 1f2b -p 4 -m 8', 'code = 3', 'exit code of command 1', '-2', '+3')

    def test_finds_what_is_written(self):
        self.assert_found('schedule show 1f1b -p 4 -m 8 -o out.txt', "open('out.txt', 'a').write('one line more\\n')",
                          'file out.txt', '+one line more')
        self.assert_found('schedule list', "open('left', 'w')", 'file left')

    def test_a_command_that_writes_over_the_inputs_is_no_answer(self):
        program = self.altered('schedule list', "open('in/text', 'w')")
        code, _, err = same_answers('--self', program, '--only', HANDFUL)
        self.assertEqual(code, 1)
        self.assertIn('file text', err)

    def test_ends_what_does_not_end(self):
        endless = self.program(f'#!{sys.executable}\nimport signal\nwhile True: signal.pause()\n')
        answer = run.answer(endless, ask('doctor'), self.folder / 'scratch', {}, patience=0)
        self.assertEqual(answer, {run.TIMED_OUT: 'doctor'})
        self.assertEqual(compare.differences(answer, answer), [])
        self.assertEqual(compare.differences(answer, {'exit code of command 1': '0'}),
                         ['  timed out: only before', '    -doctor', '  exit code of command 1: only after', '    +0'])

    def test_keeps_the_answers(self):
        code, out, err = same_answers('--self', BINARY, '--only', r'-o out\.txt$', '--save', self.folder / 'kept')
        self.assertEqual(code, 0, out + err)
        for side in ('before', 'after'):
            shown = [path for path in (self.folder / 'kept').glob(f'*/{side}/left/out.txt') if 'makespan' in path.read_text()]
            self.assertTrue(shown)

    def test_blanks_what_is_measured_and_no_more(self):
        line = '{"step":1,"loss":5.5,"step_seconds":0.004139,"bubble":0.902,"peak_bytes":462336}'
        self.assertEqual(blanks.blanked(line, 'train', 'stdout'),
                         '{"step":1,"loss":5.5,"step_seconds":_,"bubble":_,"peak_bytes":462336}')
        self.assertEqual(blanks.blanked(line, 'plan', 'stdout'), line)
        row = '      1   5.54443    1.6946    0.001    875 us    73,122     4.7   39.9 % (38 %)\n'
        self.assertEqual(blanks.blanked(row, 'train', 'stdout'), '      1   5.54443    1.6946    0.001 _\n')

    def test_lists_and_refuses(self):
        code, out, _ = same_answers('--list')
        self.assertEqual(code, 0)
        self.assertGreater(len(out.splitlines()), 1000)
        for arguments in ([], ['--before', BINARY], ['--self', '/none'], ['--self', BINARY, '--only', 'no such command']):
            code, out, err = same_answers(*arguments)
            self.assertNotEqual(code, 0)
            self.assertTrue(err)


if __name__ == '__main__':
    BINARY = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
