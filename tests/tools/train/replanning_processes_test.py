#!/usr/bin/env python3
"""Ranks that a launcher has started, and that divide the work anew because one of them is slow (--replan): all losses and the weights
are those of a run of one process, whatever was replanned, and a rank that cannot take a new plan has all of them keep the old one.

  tests/tools/train/replanning_processes_test.py BINARY [unittest's own arguments]
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import unittest

import train_processes_test
from train_processes_test import WORDS, Ranks, UnderMpirun, googletest_cases, here, torchrun

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'faults'))
from throttle import Throttle  # noqa: E402

# Steps of some hundredths of a second, so that what a new plan brings is known soon.
MODEL = ['--data', str(WORDS), '--bytes', '--layers', '8', '--dim', '64', '--heads', '2', '--seq', '32', '--micro-batch-size', '4',
         '--micro-batches', '8', '--eval-micro-batches', '2', '--stages', '2', '--json']
FOREVER = '1000000'
THIRD = 0.003  # seconds between a process's stops of 6 ms


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def layers_of(partition):
    """How many layers each stage of a partition has: [9, 1] of "0-8,9"."""
    stages = [[int(number) for number in stage.split('-')] for stage in partition.split(',')]
    return [stage[-1] - stage[0] + 1 for stage in stages]


class ReplanningProcessesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def follow(self, ranks, until):
        """Slows rank 1 down once rank 0 has taken five steps, and stops all once `until` has been called with a line of rank 0
        and has answered True. Returns rank 0's lines."""
        slow, lines = None, []
        for text in ranks.processes[0].stdout:
            line = json.loads(text)
            lines.append(line)
            if slow is None and line.get('step') == 5:
                slow = Throttle(ranks.processes[1].pid, THIRD)
            if until is not None and until(line):
                until = None
                slow.close()
                for process in ranks.processes:
                    process.send_signal(signal.SIGTERM)
        self.assertIsNone(until, f'not seen: {ranks.finish()} {lines[-1:]}')
        return lines

    def assert_quiet_bits(self, lines, flags=()):
        steps = lines[-1]['steps']
        code, out, err = here([*MODEL, *flags, '--steps', str(steps)])
        self.assertEqual(code, 0, err)
        quiet = lines_of(out)
        losses = [[(line['step'], line['loss_hex'], line['grad_norm']) for line in run if 'loss_hex' in line] for run in (lines, quiet)]
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(lines[-1]['weights_hash'], quiet[-1]['weights_hash'])

    def test_work_moves_from_a_slow_rank_and_the_bits_stay(self):
        trace = self.path('trace.json')
        # With all that ranks do for each other besides.
        flags = ['--steps', FOREVER, '--replan', '--mirror', '--audit', '5', '--save', self.path('out'), '--save-every', '20',
                 '--trace', trace]
        ranks = Ranks(2, [*MODEL, *flags], torchrun)
        why = []  # on a busy machine also for other reasons

        def until(line):
            why.append(line.get('why', ''))
            return line.get('event') == 'gained' and any('rank 1 takes' in text for text in why)

        lines = self.follow(ranks, until)
        ended = ranks.finish()
        self.assertEqual([code for code, _, _ in ended], [130, 130], ended)
        replanned = [line for line in lines if line.get('event') == 'replanned']
        of_slow = next(line for line in replanned if 'rank 1 takes' in line['why'])
        others, slow = layers_of(of_slow['partition'])
        self.assertGreater(others, slow, 'layers of the slow rank')
        continued = [line for line in lines if line.get('event') == 'continued']
        self.assertEqual([line['from'] for line in continued], ['memory'] * len(replanned))
        self.assert_quiet_bits(lines)
        with open(trace, encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
        named = [event['name'] for event in events if event['name'].startswith('plan ')]
        self.assertEqual([name.split(',')[0] for name in named], [f'plan {number + 2}' for number in range(len(replanned))])
        # What it has saved goes on with other ranks.
        code, out, err = here(['--resume', self.path('out'), '--stages', '3', '--steps', str(lines[-1]['steps'] + 2), '--json'])
        self.assertEqual(code, 0, err)

    @unittest.skipIf(train_processes_test.MPIRUN is None, 'there is no mpirun')
    def test_under_mpirun(self):
        job = UnderMpirun(2, [*MODEL, '--steps', FOREVER, '--replan'])
        job.await_step()
        slow = Throttle(job.ranks()[1], THIRD)
        job.await_line('"replanned"')
        slow.close()
        for pid in job.ranks():
            os.kill(pid, signal.SIGTERM)
        code, err = job.finish()
        lines = lines_of(''.join(job.out))
        self.assertTrue(lines[-1].get('interrupted'), err)
        self.assert_quiet_bits(lines)

    def test_where_one_rank_lacks_the_memory_all_keep_their_work(self):
        def variables(rank, world, port):
            return {**torchrun(rank, world, port), **({'SLUICE_FAILPOINT': 'memory.new-plan:1:fail'} if rank == 1 else {})}

        ranks = Ranks(2, [*MODEL, '--steps', FOREVER, '--replan'], variables)
        # The second time it is there.
        lines = self.follow(ranks, lambda line: line.get('event') == 'replanned')
        ended = ranks.finish()
        self.assertEqual([code for code, _, _ in ended], [130, 130], ended)
        self.assertIn('rank 1: the work is not divided anew: the failpoint memory.new-plan fails', ended[1][2])
        self.assertEqual(ended[0][2], '')
        self.assertEqual(sum(line.get('event') == 'continued' for line in lines), 1)
        self.assert_quiet_bits(lines)

    def test_what_cannot_be_replanned_is_refused(self):
        for flags, wanted in ((['--partition', '0-4,5-9'], '--partition, --plan and --stage-replicas say'),
                              (['--schedule', 'pipedream'], 'an asynchronous schedule'),
                              (['--schedule', 'chimera'], 'two copies of the model')):
            with self.subTest(flags=flags):
                ended = Ranks(2, [*MODEL, *flags, '--steps', '2', '--replan']).finish()
                self.assertEqual([code for code, _, _ in ended], [2, 2], ended)
                self.assertIn(wanted, ended[0][2])
        code, _, err = here([*MODEL, '--steps', '2', '--replan'])
        self.assertEqual(code, 2)
        self.assertIn('--replan: all ranks are threads of this process', err)

    def test_all_ranks_replan_or_none(self):
        ended = Ranks(2, [*MODEL, '--steps', '2'], own={1: {'--replan': '--no-pin'}}).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2], ended)
        self.assertIn('--replan (rank 1: given; rank 0: not given)', ended[0][2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('binary')
    train_processes_test.OPTIONS, rest = parser.parse_known_args()
    googletest_cases.main('replanning_processes_test', rest)


if __name__ == '__main__':
    main()
