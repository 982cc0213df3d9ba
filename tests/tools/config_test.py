#!/usr/bin/env python3
"""`sluice config`: what it asks, on a terminal and of a pipe, and what `sluice train` makes of the file.

Usage: config_test.py PATH-TO-SLUICE"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import tomllib
import unittest

SLUICE = os.path.abspath(sys.argv.pop(1))
QUESTIONS = 8  # nine where there is a GPU
TINY = ['--layers', '2', '--dim', '16', '--heads', '2', '--seq', '16', '--eval-micro-batches', '1', '--no-pin', '--json']


class ConfigTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / 'text').write_text('And the evening and the morning were day.\n' * 60)
        # The questions are those of a machine without GPUs.
        self.environment = {**os.environ, 'CUDA_VISIBLE_DEVICES': ''}

    def run_sluice(self, *arguments, answers=''):
        return subprocess.run([SLUICE, *arguments], input=answers, capture_output=True, text=True, cwd=self.folder,
                              env=self.environment, check=False)

    def settings(self, name='run.toml'):
        return tomllib.loads((self.folder / name).read_text())

    def test_a_terminal_is_asked_and_the_file_trains(self):
        answers = ['char-gpt', 'text', '2', 'fp32', '2', '2', '3', 'none']
        self.assertEqual(len(answers), QUESTIONS)
        mine, its = pty.openpty()
        with subprocess.Popen([SLUICE, 'config'], stdin=its, stdout=its, stderr=its, cwd=self.folder,
                              env=self.environment) as process:
            os.close(its)
            shown = b''
            for answer in answers:
                while not shown.endswith(b': '):
                    shown += os.read(mine, 1000)
                shown = b''
                os.write(mine, f'{answer}\n'.encode())
            self.assertEqual(process.wait(timeout=60), 0)
            os.close(mine)
        self.assertEqual(self.settings(), {
            'model': 'char-gpt', 'data': str(self.folder / 'text'), 'stages': 2, 'dtype': 'fp32', 'micro-batch-size': 2,
            'micro-batches': 2, 'steps': 3})
        trained = self.run_sluice('train', '--config', 'run.toml', *TINY)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        typed = self.run_sluice('train', '--data', 'text', '--stages', '2', '--micro-batch-size', '2', '--micro-batches', '2',
                                '--steps', '3', *TINY)
        hashes = [json.loads(run.stdout.splitlines()[-1])['weights_hash'] for run in (trained, typed)]
        self.assertEqual(*hashes)

    def test_a_wrong_answer_is_asked_for_again(self):
        wrong = {'--model': 'gpt22', '--data': 'nothing', '--stages': '0', '--dtype': 'fp64', '--micro-batch-size': 'x',
                 '--micro-batches': '0', '--steps': '1e3'}
        right = ['', 'text', '', '', '', '', '', '']
        answers = [line for pair in zip([*wrong.values(), None], right) for line in pair if line is not None]
        asked = self.run_sluice('config', answers='\n'.join(answers) + '\n')
        self.assertEqual(asked.returncode, 0, asked.stderr)
        for flag, answer in wrong.items():
            said = "no preset model 'gpt22'" if flag == '--model' else flag
            self.assertEqual(asked.stderr.count(f'sluice: {said}'), 1, (flag, answer, asked.stderr))
        self.assertTrue(all(len(line) < 400 for line in asked.stderr.splitlines()), asked.stderr)
        self.assertEqual(self.settings(), {
            'model': 'char-gpt', 'data': str(self.folder / 'text'), 'stages': 'auto', 'dtype': 'fp32', 'micro-batch-size': 4,
            'micro-batches': 8, 'steps': 100, 'save': str(self.folder / 'out')})

    def test_the_default_asks_nothing_and_needs_data(self):
        self.assertEqual(self.run_sluice('config', '--default', '-o', 'some.toml').returncode, 0)
        self.assertEqual(self.settings('some.toml')['stages'], 'auto')
        self.assertIn('--data is required', self.run_sluice('train', '--config', 'some.toml').stderr)
        trained = self.run_sluice('train', '--config', 'some.toml', '--data', 'text', '--steps', '1', '--no-save', *TINY)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertFalse((self.folder / 'out').exists())

    def test_a_file_may_have_any_name(self):
        names = {b'a\nb.toml': 'a\ufffdb.toml', b'a\xff.yaml': 'a\ufffd.yaml', b'a b.toml': "'a b.toml'"}
        for name, shown in names.items():
            done = self.run_sluice('config', '--default', '-o', name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, f'wrote {shown}; to train: sluice train --config {shown} --data PATH\n')
            trained = self.run_sluice('train', '--config', name, '--data', 'text', '--steps', '0', '--no-save', *TINY)
            self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_yaml_says_the_same(self):
        (self.folder / 'yes').write_text((self.folder / 'text').read_text())  # a name that YAML could take for true
        answers = ['char-gpt', 'yes', '2', 'fp32', '2', '2', '3', 'none']
        hashes = []
        for name in ('run.toml', 'run.yaml'):
            asked = self.run_sluice('config', '-o', name, answers='\n'.join(answers) + '\n')
            self.assertEqual(asked.returncode, 0, asked.stderr)
            trained = self.run_sluice('train', '--config', name, *TINY)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            hashes.append(json.loads(trained.stdout.splitlines()[-1])['weights_hash'])
        self.assertEqual(*hashes)
        text = (self.folder / 'run.yaml').read_text()
        self.assertIn(f'\ndata: {self.folder}/yes\n', text)
        self.assertIn('\nsteps: 3\n', text)
        self.assertIn('\n# save: PATH\n', text)
        (self.folder / 'run.yaml').write_text(f'{text}stepz: 3\n')
        wrong = self.run_sluice('train', '--config', 'run.yaml', *TINY)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn(f"line {text.count(chr(10)) + 1} of run.yaml: 'stepz' is no flag", wrong.stderr)

    def test_weights_are_asked_about_where_the_model_has_some(self):
        self.assertEqual(self.run_sluice('train', '--data', 'text', '--steps', '1', '--save', 'out', *TINY).returncode, 0)
        answers = ['out/latest', '', 'text', '1', 'fp32', '2', '2', '0', 'none']
        weights = []
        for init in ('', 'none'):
            answers[1] = init
            asked = self.run_sluice('config', '--overwrite', answers='\n'.join(answers) + '\n')
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertIn('Folder of the weights to begin with, or none [out/latest]: ', asked.stderr)
            self.assertEqual(self.settings().get('init'), None if init else str(self.folder / 'out/latest'))
            trained = self.run_sluice('train', '--config', 'run.toml', '--seq', '16', '--no-pin', '--json')
            self.assertEqual(trained.returncode, 0, trained.stderr)
            self.assertEqual('add --init' in trained.stderr, init == 'none')
            weights.append(json.loads(trained.stdout.splitlines()[-1])['weights_hash'])
        self.assertNotEqual(*weights)

    def test_an_answer_that_is_not_utf8_is_asked_for_again(self):
        answers = b'char-gpt\n\xff\ntext\n\n\n\n\n\n\n'
        asked = subprocess.run([SLUICE, 'config'], input=answers, capture_output=True, cwd=self.folder, env=self.environment,
                               check=False)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn(b'--data: the answer is not UTF-8', asked.stderr)
        self.assertEqual(self.settings()['data'], str(self.folder / 'text'))

    def test_no_file_is_lost(self):
        (self.folder / 'run.toml').write_text('steps = 1\n')
        there = self.run_sluice('config', '--default')
        self.assertEqual((there.returncode, self.settings()), (2, {'steps': 1}))
        self.assertIn('run.toml is there already', there.stderr)
        ended = self.run_sluice('config', '--overwrite', answers='char-gpt\n')
        self.assertEqual((ended.returncode, self.settings()), (2, {'steps': 1}))
        self.assertIn('standard input ended at the question about --data', ended.stderr)
        self.assertEqual(self.run_sluice('config', '--default', '--overwrite').returncode, 0)
        self.assertEqual(self.settings()['steps'], 100)


if __name__ == '__main__':
    unittest.main()
