#!/usr/bin/env python3
"""`sluice launch` with a rank whose hardware computes wrong: audits name it, it is ended, the others go on from before it could have
spoilt anything, and the losses that stand and the final weights are those of a run on good hardware.

  tests/faults/lying_launch_test.py BINARY [--seed N] [unittest's own arguments]

BINARY is of a build with failpoints. With SLUICE_LONG_FAULTS=1 bits flip at 60 moments instead of 4, and it prints what was found.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import launch_test
from launch_test import googletest_cases
from launch_test import AUTO, LONG, MODEL, PINNED, Launched, quiet

THREE = ['--stages', '3', '--partition', '0-1,2-3,4-5']
STEPS = 40


def wrong_from(step, rank, what, every):
    """The fault of a rank of THREE that computes wrong from this step on, in runs that are audited every so many steps."""
    def hits(of):  # per micro-batch: one for each layer, but tokens have no gradient
        return 1 if what == 'input' and of == 0 else 2
    audited = (rank + 1) % 3  # whose micro-batch it computes again
    hit = (step - 1) * 12 * hits(rank) + (step - 1) // every * hits(audited) + 1
    return f'rank{rank}-{what}.flip:{hit}:vanish'


class LyingLaunchTest(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(launch_test.OPTIONS.seed)
        self.directory = tempfile.TemporaryDirectory()
        self.runs = []
        self.faults = 0
        self.save = self.path('out')

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def tearDown(self):
        for run in self.runs:
            run.close()
        self.directory.cleanup()

    def faulty(self, fault):
        """The environment of processes of which one has the fault: the first that comes to it."""
        self.faults += 1
        return {'SLUICE_FAILPOINT': fault, 'SLUICE_FAILPOINT_ONCE': self.path(f'fault-{self.faults}'), 'OMP_NUM_THREADS': '1'}

    def launch(self, launch, train, fault, model=MODEL):
        # A fault counts what its rank does, so ranks keep their work, however slow this machine makes one of them.
        self.runs.append(Launched(['--no-replan', *launch], train, model, self.faulty(fault)))
        return self.runs[-1]

    def expect_quiet(self, run, flags=()):
        """The run ends well, having found one liar; returns what it said of that."""
        code, errors = run.finish()
        self.assertEqual(code, 0, errors)
        losses, end = quiet(['--stages', '2', '--steps', str(STEPS), *flags])
        self.assertEqual(run.losses, losses, errors)
        for key in ('weights_hash', 'eval_loss', 'final_loss'):
            self.assertEqual(run.last[key], end[key])
        happened = os.path.exists(self.path(f'fault-{self.faults}'))
        self.assertEqual(len(run.named('lied')), 1, f'{errors}; the fault happened: {happened}; {run.events}')
        lied = run.named('lied')[0]
        self.assertIn(f'rank {lied["rank"]} ', errors)
        self.assertIn(f'computes wrong, as the audit of step {lied["step"]}', errors)
        if lied['from'] != 'memory':
            self.assertLessEqual(lied['from_step'], lied['good_step'])
        after = run.events.index(lied) + 1
        self.assertEqual(run.events[after]['event'], 'continued' if len(run.named('replanned')) == 0 else 'replanned')
        self.assertEqual(run.named('continued')[0]['step'], lied['from_step'])
        return lied

    def test_goes_on_without_it(self):
        found = []
        for case in range(60 if LONG else 4):
            what = ('forward', 'input', 'gradient', 'memory')[case % 4]
            rank = case // 4 % 3 if LONG else 1
            step = self.random.randint(11, 30)
            with self.subTest(what=what, rank=rank, step=step):
                # A flip in memory happens once, between two steps; what computes wrong does so from then on.
                fault = f'rank{rank}-memory.flip:{step}:fail' if what == 'memory' else wrong_from(step, rank, what, 4)
                run = self.launch(['--processes', '3', '--max-restarts', '1'],
                                  [*THREE, '--steps', str(STEPS), '--audit', '4', '--save', self.save, '--save-every', '3',
                                   '--keep', '5', '--overwrite'], fault)
                lied = self.expect_quiet(run)
                self.assertEqual(lied['rank'], rank)
                self.assertEqual(lied['from'], 'checkpoint')
                self.assertEqual([event['lied'] for event in run.named('lost')], [True])
                if what == 'memory':
                    self.assertEqual(lied['step'], step)
                else:
                    self.assertEqual(lied['step'], (step + 3) // 4 * 4)  # the first audit of it
                    self.assertLess(lied['good_step'], step)
                    self.assertGreaterEqual(lied['micro_batch'], 0)
                for path in lied.get('removed', []):
                    self.assertGreater(int(path[-8:]), lied['good_step'])
                found.append((what, lied['step'] - lied['from_step'], run.named('continued')[0]['seconds']))
        seconds = sorted(one[2] for one in found)
        print(f'{len(found)} flips, all named: steps taken again {min(one[1] for one in found)} to {max(one[1] for one in found)}; '
              f'seconds to the next step: median {seconds[len(seconds) // 2]:.2f}, largest {seconds[-1]:.2f}')

    def test_what_was_shown_is_withdrawn(self):
        # From step 13 on rank 1 computes wrong, which the audit of step 20 finds; step 10 was audited.
        rate = ['--lr', '0.05']  # so that wrong bits are soon to be seen
        run = self.launch(['--processes', '3', '--max-restarts', '1'], [*THREE, *rate, '--steps', str(STEPS), '--audit', '10'],
                          wrong_from(13, 1, 'forward', 10))
        lied = self.expect_quiet(run, rate)
        self.assertEqual((lied['step'], lied['good_step']), (20, 9))
        self.assertEqual((lied['from_step'], lied['from']), (0, 'start'))  # nothing was saved
        wrong = [step for step, loss in run.withdrawn.items() if loss != run.losses[step]]
        self.assertTrue(wrong)
        self.assertGreaterEqual(min(wrong), 13)
        self.assertEqual(sorted(run.withdrawn), list(range(1, 20)))

    def cores_of(self, run):
        """The cores on which any thread of any rank of the run may be."""
        cores = set()
        for pid in run.pids():
            try:
                for task in os.listdir(f'/proc/{pid}/task'):
                    cores |= os.sched_getaffinity(int(task))
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended just now
        return cores

    def test_the_core_that_computed_wrong_is_used_no_more(self):
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) < 2:
            self.skipTest('one core alone')
        # Rank 1 has the second core to itself. Fewer ranks may go on than there are; where no core is free for another one,
        # they do.
        for least, replaced in (('3', True), ('2', len(usable) > 3)):
            run = self.launch(['--processes', '3', '--min-ranks', least, '--max-restarts', '1'],
                              [*AUTO, '--steps', '400', '--audit', '4'], 'rank1-forward.flip:200:vanish', PINNED)
            seen = []
            for line in run.lines():
                if 'loss' in line and run.named('continued'):
                    seen.append(self.cores_of(run))
            run.errors.seek(0)
            errors = run.errors.read()
            self.assertEqual(run.ended, 0, errors)
            lost = run.named('lost')
            self.assertEqual([(event['lied'], event['cores_left_out']) for event in lost], [(True, [usable[1]])])
            self.assertIn(f'core {usable[1]} is left out from now on', errors)
            self.assertEqual('none is free for another rank' in errors, not replaced)
            self.assertEqual(len(run.named('joined')), int(replaced))
            self.assertTrue(any(seen))
            for cores in seen:
                self.assertLessEqual(cores, set(usable) - {usable[1]})

    def test_goes_on_with_fewer(self):
        run = self.launch(['--processes', '4', '--min-ranks', '3', '--max-restarts', '0'],
                          [*AUTO, '--steps', str(STEPS), '--audit', '4', '--save', self.save, '--save-every', '2', '--keep', '20'],
                          'rank2-gradient.flip:300:vanish')
        lied = self.expect_quiet(run)
        self.assertEqual(lied['rank'], 2)
        self.assertEqual(run.named('continued')[0]['ranks'], 3)

    def test_checkpoints_that_are_wrong_are_not_resumed_from(self):
        # Of the newest only two are kept, and both are newer than the last audit that was passed.
        run = self.launch(['--processes', '3', '--max-restarts', '1'],
                          [*THREE, '--steps', str(STEPS), '--audit', '10', '--save', self.save, '--save-every', '1'],
                          wrong_from(15, 0, 'input', 10))
        lied = self.expect_quiet(run)
        self.assertEqual(lied['from_step'], 9)
        self.assertEqual(lied['removed'], [os.path.join(self.save, f'step-000000{step}') for step in (19, 18)])
        # Those that were kept because of audits went as audits were passed.
        left = sorted(int(name[-8:]) for name in os.listdir(self.save) if name.startswith('step-'))
        self.assertEqual(left[-2:], [STEPS - 1, STEPS])
        self.assertLessEqual(len(left), 4)

    def test_what_a_finding_goes_back_to_is_kept(self):
        # Each rank has two stages, which are audited in turn, so the last audit of one is two audits ago.
        for step in range(15, 24, 3):
            run = self.launch(['--processes', '3', '--max-restarts', '1'],
                              ['--stages', '3', '--chunks', '2', '--schedule', 'interleaved', '--partition', '0,1,2,3,4,5', '--steps',
                               str(STEPS), '--audit', '3', '--save', self.save, '--save-every', '1', '--overwrite'],
                              f'rank1-gradient.flip:{step * 24}:vanish')
            lied = self.expect_quiet(run)
            self.assertEqual((lied['from_step'], lied['from']), (lied['good_step'], 'checkpoint'))
            self.assertEqual(lied['good_step'], lied['step'] - 7)

    def test_of_memory_that_loses_a_bit_the_mirror_has_the_rest(self):
        # Two ranks suffice: each knows what it has written, and nobody has made an update of the bit yet.
        for ranks in (2, 3):
            run = self.launch(['--processes', str(ranks), '--max-restarts', '1'],
                              ['--stages', str(ranks), '--steps', str(STEPS), '--audit', '5', '--mirror', '--save', self.save,
                               '--save-every', '1', '--overwrite'], 'rank1-memory.flip:23:fail')
            lied = self.expect_quiet(run)
            self.assertEqual((lied['rank'], lied['step'], lied['from_step'], lied['from']), (1, 23, 22, 'memory'))
            self.assertEqual(lied['removed'], [os.path.join(self.save, 'step-00000022')])  # it may have been read just then
            self.assertEqual((run.withdrawn, run.repeated), ({}, 0))

    def test_begins_again_from_what_it_was_resumed_from(self):
        first = self.path('first')
        quiet(['--stages', '2', '--steps', '5', '--save', first])
        run = self.launch(['--processes', '3', '--max-restarts', '1'],
                          [*THREE, '--steps', str(STEPS), '--audit', '10', '--save', self.save, '--resume', first],
                          wrong_from(13, 1, 'gradient', 10))
        code, errors = run.finish()
        self.assertEqual(code, 0, errors)
        losses, end = quiet(['--stages', '2', '--steps', str(STEPS)])
        self.assertEqual(run.losses, {step: loss for step, loss in losses.items() if step > 5}, errors)
        self.assertEqual(run.last['weights_hash'], end['weights_hash'])
        self.assertEqual(run.named('lied')[0]['from_step'], 5)

    def test_one_that_is_lost_later_is_replaced_as_ever(self):
        run = self.launch(['--processes', '3', '--max-restarts', '2'],
                          [*THREE, '--steps', str(STEPS), '--audit', '5', '--mirror', '--save', self.save, '--save-every', '4',
                           '--keep', '5'], wrong_from(12, 2, 'forward', 5))
        killed = False
        for line in run.lines():
            if line.get('step') == 25 and 'loss' in line and run.named('lied') and not killed:
                killed = True
                os.kill(self.random.choice(run.pids()), 9)
        code = run.ended
        run.errors.seek(0)
        self.assertEqual(code, 0, run.errors.read())
        losses, end = quiet(['--stages', '2', '--steps', str(STEPS)])
        self.assertEqual(run.losses, losses)
        self.assertEqual(run.last['weights_hash'], end['weights_hash'])
        self.assertEqual([event['lied'] for event in run.named('lost')], [True, False])
        self.assertEqual(run.named('continued')[1]['from'], 'memory')

    def test_what_a_group_had_before_is_not_trusted(self):
        # The ranks that go on from memory after the kill go on from what was wrong already; their first audit finds it.
        run = self.launch(['--processes', '3', '--max-restarts', '2'],
                          [*THREE, '--steps', '110', '--audit', '50', '--mirror', '--save', self.save, '--save-every', '7'],
                          wrong_from(53, 1, 'forward', 50))
        # A save that is still being written is lost with its group.
        newest_good = os.path.join(self.save, 'step-00000049')
        killed = False
        for line in run.lines():
            if line.get('step', 0) >= 55 and 'loss' in line and not killed and os.path.exists(newest_good):
                killed = True
                os.kill(run.pids()[2], 9)
        run.errors.seek(0)
        self.assertEqual(run.ended, 0, run.errors.read())
        losses, end = quiet(['--stages', '2', '--steps', '110'])
        self.assertEqual(run.losses, losses)
        self.assertEqual(run.last['weights_hash'], end['weights_hash'])
        lied = run.named('lied')[0]
        self.assertEqual((lied['step'], lied['good_step'], lied['from_step']), (100, 49, 49))

    def test_ends_where_two_cannot_tell(self):
        # Rank 1 computes wrong from step 14 on, and step 12 was audited.
        run = self.launch(['--processes', '2', '--max-restarts', '5'],
                          ['--stages', '2', '--partition', '0-2,3-5', '--steps', str(STEPS), '--audit', '4', '--save', self.save,
                           '--save-every', '13'], 'rank1-forward.flip:500:vanish')
        code, errors = run.finish()
        self.assertEqual(code, 5, errors)
        self.assertIn('the hardware of rank 1 or rank 0 computes wrong', errors.replace('rank 0 or rank 1', 'rank 1 or rank 0'))
        self.assertIn(f'there is no checkpoint up to step 11 in {self.save}, and later ones may be wrong: begin anew', errors)
        self.assertTrue(os.path.exists(os.path.join(self.save, 'step-00000013')))
        self.assertEqual(run.events, [])

    def test_ends_where_too_few_are_left(self):
        run = self.launch(['--processes', '3', '--max-restarts', '0'],
                          [*THREE, '--steps', str(STEPS), '--audit', '4', '--save', self.save, '--save-every', '1'],
                          wrong_from(13, 1, 'forward', 4))
        code, errors = run.finish()
        self.assertEqual(code, 5, errors)
        self.assertRegex(errors, r'rank 1, stage \d, micro-batch \d+, audit of step 16: the hardware of rank 1 computes wrong')
        self.assertIn('step-00000011: go on from it with --resume', errors)
        self.assertIn('2 processes are left; expected at least 3 (--min-ranks)', errors)

    def test_a_table_says_which_rows_are_shown_again(self):
        command = [launch_test.OPTIONS.binary, 'launch', '--processes', '3', '--max-restarts', '1', '--', 'train', *MODEL, *THREE,
                   '--steps', str(STEPS), '--audit', '10', '--save', self.save, '--save-every', '4', '--keep', '9']
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=launch_test.SILENCE,
                              env={**os.environ, **self.faulty(wrong_from(13, 0, 'forward', 10))})
        self.assertEqual(done.returncode, 0, done.stderr)
        said = ('rank 0 has computed wrong, as step 20 found: steps from 9 on are shown again, corrected; removed step-00000016, '
                'step-00000012')
        before, found, after = done.stdout.partition(said)
        self.assertTrue(found, done.stdout)
        rows = [[int(row) for row in re.findall(r'^ +(\d+) +\d+\.\d+ ', text, re.MULTILINE)] for text in (before, after)]
        self.assertIn(18, rows[0])
        self.assertEqual(rows[1], [step for step in range(9, STEPS + 1) if step % 2 == 0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('binary')
    parser.add_argument('--seed', type=int, default=1)
    launch_test.OPTIONS, rest = parser.parse_known_args()
    googletest_cases.main('faults_lying_launch_test', rest)


if __name__ == '__main__':
    main()
