#!/usr/bin/env python3
"""What the scripts of examples/many_machines do when ranks are lost; stand-ins for Slurm, Ray and `sluice` end as told."""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / 'examples/many_machines'

# Ends with the next code of the file CODES, after it has written down how it was called.
TOLD = '''#!/bin/sh
echo "$(basename "$0")" "$@" ${SLUICE_SECRET:+with a secret} >>"$CALLS"
code=$(head -n 1 "$CODES"); sed -i 1d "$CODES"
exit ${code:-0}
'''
SINFO = '''#!/bin/sh
head -n 1 "$NODES" | tr , '\\n'; [ "$(wc -l <"$NODES")" = 1 ] || sed -i 1d "$NODES"
'''
# As much of Ray as the script uses. An actor whose rank ends with 99 is gone for that call, and there again for the next.
RAY = {'__init__.py': '''
import types
import ray.util
class exceptions: RayActorError = type('RayActorError', (Exception,), {})
def init(): pass
class Call:
    def __init__(self, function, *given): self.answer = lambda: function(*given)
def get(call):
    answer = call.answer()
    if answer == 99: raise exceptions.RayActorError()
    return answer
def wait(calls, num_returns, timeout): return calls, []
def remote(**options):
    assert options['max_restarts'] == -1
    def of(actor):
        class Handle:
            def __init__(self):
                for name in 'meeting_place', 'train':
                    method = getattr(actor(), name)
                    setattr(self, name, types.SimpleNamespace(remote=lambda *given, method=method: Call(method, *given)))
        return types.SimpleNamespace(options=lambda **where: types.SimpleNamespace(remote=Handle))
    return of
''', 'util/__init__.py': '''
def get_node_ip_address(): return '127.0.0.1'
''', 'util/placement_group.py': '''
def placement_group(bundles, strategy): assert (bundles, strategy) == ([{'CPU': 1}] * 2, 'SPREAD')
''', 'util/scheduling_strategies.py': '''
def PlacementGroupSchedulingStrategy(*of): pass
'''}


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        for name, text in {'srun': TOLD, 'sluice': TOLD, 'sinfo': SINFO, 'sleep': '#!/bin/sh\n'}.items():
            (self.path / name).write_text(text, encoding='ascii')
            (self.path / name).chmod(stat.S_IRWXU)

    def run_script(self, command, codes, nodes=('n1,n2,n3',), **variables):
        """(exit code, its calls) of a script whose processes end with these codes, one after another."""
        for name, lines in {'codes': codes, 'nodes': nodes, 'calls': []}.items():
            (self.path / name).write_text(''.join(f'{line}\n' for line in lines), encoding='ascii')
        files = {name.upper(): str(self.path / name) for name in ('codes', 'nodes', 'calls')}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120,
                              env={**os.environ, **files, 'PATH': f'{self.path}:{os.environ["PATH"]}',
                                   'SLURM_JOB_NODELIST': 'n[1-3]', **variables})
        return done.returncode, (self.path / 'calls').read_text(encoding='ascii').splitlines(), done.stderr

    def slurm(self, codes, *nodes, **variables):
        command = ['bash', EXAMPLES / 'slurm.sbatch', 'out', '--steps', '3']
        return self.run_script(command, codes, nodes or ('n1,n2,n3',), **variables)

    def test_slurm_starts_again_on_the_nodes_that_are_left(self):
        code, calls, err = self.slurm([137, 5, 0], 'n1,n2,n3', 'n1,n2,n3', 'n1,n3')
        self.assertEqual((code, len(calls)), (0, 3), err)
        self.assertIn('srun --nodelist n1,n2,n3 --nodes 3 --ntasks 3 ', calls[0])
        self.assertIn('srun --nodelist n1,n3 --nodes 2 --ntasks 2 ', calls[2])
        self.assertIn('--steps 3 --save out --resume-or-start out with a secret', calls[2])

    def test_slurm_does_not_repeat_what_would_only_fail_again(self):
        for ended in 2, 3, 6, 130:
            self.assertEqual(self.slurm([ended, 0])[0], ended)

    def test_slurm_gives_up_after_as_many_losses_as_it_may_survive(self):
        code, calls, _ = self.slurm([5] * 9, MOST_RESTARTS='2')
        self.assertEqual((code, len(calls)), (5, 3))

    def ray(self, codes, *flags):
        (self.path / 'ray/util').mkdir(parents=True, exist_ok=True)
        for name, text in RAY.items():
            (self.path / 'ray' / name).write_text(text, encoding='ascii')
        command = [sys.executable, EXAMPLES / 'ray_train.py', '--ranks', '2', *flags, 'out', '--steps', '3']
        return self.run_script(command, codes, PYTHONPATH=str(self.path))

    def test_ray_goes_on_after_losses(self):
        code, calls, err = self.ray([137, 5, 5, 99, 0, 0])
        self.assertEqual((code, len(calls)), (0, 6), err)
        for number, call in enumerate(calls):
            self.assertRegex(call, rf'sluice train .*--steps 3 --save /.*/out --resume-or-start /.*/out --world-size 2 '
                                   rf'--master-addr 127.0.0.1 --master-port \d+ --rank {number % 2} with a secret')
        self.assertIn('2 ranks ended with [5, -9] after restart 0', self.ray([5, 99, 0, 0])[2])

    def test_ray_ends_with_an_error_of_a_ranks_own(self):
        code, calls, err = self.ray([2, 5, 0, 0])
        self.assertEqual((code, len(calls)), (2, 2), err)

    def test_ray_gives_up_after_as_many_losses_as_it_may_survive_or_without_ranks(self):
        code, calls, err = self.ray([5] * 9, '--max-restarts', '1')
        self.assertEqual((code, len(calls)), (5, 4), err)
        code, calls, err = self.ray([0, 0], '--min-ranks', '3')
        self.assertEqual((code, calls), (5, []), err)


if __name__ == '__main__':
    unittest.main(verbosity=2)
