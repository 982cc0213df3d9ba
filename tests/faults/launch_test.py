#!/usr/bin/env python3
"""`sluice launch`: ranks that are killed, stopped, added and told to leave, at random moments: the losses and the final weights are
those of a run that nothing happened to, every step is shown, and nothing stays behind.

  tests/faults/launch_test.py BINARY [--kills N] [--changes N] [--churn SECONDS] [--seed N] [unittest's own arguments]

With SLUICE_LONG_FAULTS=1 it kills 100 times, changes the number of ranks 20 times, lets everything happen for 20 minutes, and prints
how long recoveries took.
"""
import argparse
import contextlib
import faulthandler
import json
import math
import os
import pathlib
import random
import resource
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

from slow_edge import SlowEdge
from throttle import Throttle, children

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools/testing'))
import googletest_cases

OPTIONS = None
LONG = os.environ.get('SLUICE_LONG_FAULTS') == '1'
WORDS = pathlib.Path(__file__).resolve().parents[1] / 'models/tokens/fixtures/llama2.json'  # any text does
SHAPE = ['--data', str(WORDS), '--bytes', '--layers', '4', '--dim', '32', '--heads', '2', '--seq', '16', '--micro-batch-size', '2',
         '--eval-micro-batches', '4', '--micro-batches', '12', '--sum-groups', '12']
PINNED = [*SHAPE, '--pin']
# Other tests run beside: ranks that are pinned to the same cores as theirs would wait for each other.
MODEL = [*SHAPE, '--no-pin']
AUTO = ['--stages', 'auto', '--data-parallel', 'auto']
QUARTER = 0.002  # seconds between a process's stops of 6 ms: it runs for a quarter of the time
SILENCE = 420  # seconds without a line, after which a case says where it waits, and ends


class Launched:
    """A run under `sluice launch`, whose output is read line by line."""

    def __init__(self, launch, train, model, variables=None, ignored=()):
        self.watched = 0
        self.watch()
        self.errors = tempfile.TemporaryFile('w+')
        self.process = subprocess.Popen([OPTIONS.binary, 'launch', *launch, '--', 'train', *model, *train, '--json'],
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, env={**os.environ, **(variables or {})},
                                        preexec_fn=lambda: [signal.signal(each, signal.SIG_IGN) for each in ignored])
        self.losses, self.events, self.last, self.repeated, self.ended = {}, [], {}, 0, None
        self.withdrawn = {}  # losses that the run has said to be wrong

    def watch(self):
        now = time.monotonic()
        if now > self.watched + 1:
            self.watched = now
            faulthandler.dump_traceback_later(SILENCE, exit=True)

    def lines(self):
        """Yields each object that the run prints."""
        for line in self.process.stdout:
            self.watch()
            found = json.loads(line)
            if 'weights_hash' in self.last:
                raise AssertionError(f'after the summary: {found}')
            if 'event' in found:
                self.events.append(found)
            if found.get('event') == 'lied':
                for step in [step for step in self.losses if step > found['from_step']]:
                    self.withdrawn[step] = self.losses.pop(step)
            if 'loss' in found:
                step, loss = found['step'], found['loss_hex']
                self.repeated += step in self.losses
                if self.losses.setdefault(step, loss) != loss:
                    raise AssertionError(f'step {step} has had the loss {self.losses[step]}, and now {loss}')
            self.last = found
            yield found
        self.ended = self.process.wait()

    def close(self):
        self.process.stdout.close()
        self.errors.close()

    def finish(self):
        for _ in self.lines():
            pass
        self.errors.seek(0)
        return self.ended, self.errors.read()

    def pids(self):
        return children(self.process.pid)

    def named(self, event):
        return [found for found in self.events if found['event'] == event]


def descriptors(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def quiet(train, model=None):
    """The losses by step, and the last line, of the same run as threads of one process."""
    # Nothing is to hang here, but a busy disk may keep a checkpoint for longer than half a minute.
    command = [OPTIONS.binary, 'train', *(model or MODEL), *train, '--timeout', '5min', '--json']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f'exit code {done.returncode} of {command}: {done.stderr}')
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line['step']: line['loss_hex'] for line in lines if 'loss' in line}, lines[-1]


class LaunchTest(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(OPTIONS.seed)
        self.directory = tempfile.TemporaryDirectory()
        self.runs = []
        self.save = os.path.join(self.directory.name, 'out')

    def launch(self, launch, train, model=None, ignored=()):
        self.runs.append(Launched(launch, train, model or MODEL, ignored=ignored))
        return self.runs[-1]

    def tearDown(self):
        for run in self.runs:
            run.close()
        self.directory.cleanup()

    def expect_quiet(self, run, train, exit_code=0, once=True):
        code = run.finish()[0] if run.ended is None else run.ended
        run.errors.seek(0)
        errors = run.errors.read()
        self.assertEqual(code, exit_code, errors)
        losses, end = quiet(train)
        self.assertEqual(run.losses, losses, errors)
        self.assertEqual(run.last['weights_hash'], end['weights_hash'])
        self.assertEqual(run.last['eval_loss'], end['eval_loss'])
        self.assertEqual(run.last['final_loss'], end['final_loss'])
        if once:
            self.assertEqual(run.repeated, 0, errors)

    def kill_often(self, kills, steps, launch, train, signals=(signal.SIGKILL,)):
        """Kills a rank every so many steps, at a random moment of one of the next ones."""
        run = self.launch([*launch, '--max-restarts', str(kills)], train)
        every = max(1, steps // (kills + 1))
        next_at = every
        for line in run.lines():
            if kills > 0 and line.get('step', 0) >= next_at and 'loss' in line:
                time.sleep(self.random.random() * 0.02)
                pids = run.pids()
                if pids:
                    os.kill(self.random.choice(pids), self.random.choice(signals))
                kills -= 1
                next_at = line['step'] + every
        return run

    def actions(self, trace):
        """The actions and phases of a trace, as {(group, rank): steps}, and its marks."""
        with open(trace, encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
        steps = {}
        for event in events:
            if event['ph'] == 'X' and event['name'].startswith('OPTIMIZER_STEP'):
                place = (event['args'].get('group'), event['args']['rank'])
                steps.setdefault(place, {})[event['args']['step']] = (event['ts'], event['ts'] + event['dur'])
        return steps, [(event['name'], event['ts']) for event in events if event['ph'] == 'i']

    def test_a_trace_has_all_groups(self):
        # Rank 1 is killed, whose own steps are there as those of the others are; then two are left.
        trace = os.path.join(self.directory.name, 'trace.json')
        run = self.launch(['--processes', '3', '--min-ranks', '2', '--max-restarts', '0'],
                          [*AUTO, '--steps', '60', '--mirror', '--trace', trace])
        killed = False
        for line in run.lines():
            if line.get('step') == 20 and 'loss' in line and not killed:
                killed = True
                os.kill(run.pids()[1], signal.SIGKILL)
        self.expect_quiet(run, ['--stages', '2', '--steps', '60'])
        went_on = run.named('continued')[0]['step']
        steps, marks = self.actions(trace)
        self.assertEqual(sorted(steps), [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)])
        for (group, _), taken in steps.items():
            # A rank that is killed may not have noted its last step.
            first, last = (1, went_on - 1) if group == 1 else (went_on + 1, 60)
            self.assertLessEqual(set(range(first, last + 1)), set(taken))
        self.assertEqual([name for name, _ in marks],
                         ['a rank is lost', f'group 2: 2 processes instead of 3, after step {went_on}'])
        end = max(taken[went_on - 1][1] for (group, _), taken in steps.items() if group == 1)
        start = min(taken[went_on + 1][0] for (group, _), taken in steps.items() if group == 2)
        self.assertEqual(sorted([end, marks[0][1], marks[1][1], start]), [end, marks[0][1], marks[1][1], start])
        self.assertEqual(os.listdir(self.directory.name), ['trace.json'])

    def test_a_run_that_ends_in_an_error_leaves_no_trace(self):
        trace = os.path.join(self.directory.name, 'trace.json')
        run = self.launch(['--processes', '2', '--max-restarts', '0'], ['--stages', '2', '--steps', '100000', '--trace', trace])
        killed = False
        for line in run.lines():
            if line.get('step') == 5 and 'loss' in line and not killed:
                killed = True
                self.assertEqual([name.endswith('.parts') for name in os.listdir(self.directory.name)], [True])
                os.kill(run.pids()[1], signal.SIGKILL)
        self.assertEqual(run.ended, 5)
        self.assertEqual(os.listdir(self.directory.name), [])

    def test_each_rank_has_a_core_of_its_own_after_others_came_and_went(self):
        usable = os.sched_getaffinity(0)
        if len(usable) < 2:
            self.skipTest('one core alone')
        run = self.launch(['--processes', '2', '--min-ranks', '1', '--max-restarts', '0'], [*AUTO, '--steps', '600'], PINNED)
        waits, seen = 'loss', []
        for line in run.lines():
            if waits == 'loss' and 'loss' in line:
                os.kill(run.pids()[0], signal.SIGKILL)  # the other one is rank 0 from then on
                waits = 'one'
            elif waits == 'one' and line.get('event') == 'continued':
                run.process.send_signal(signal.SIGUSR1)
                waits = 'two'
            elif waits == 'two' and len(run.named('continued')) == 2 and 'loss' in line:
                try:
                    seen.append([os.sched_getaffinity(pid) for pid in run.pids()])
                except ProcessLookupError:
                    continue  # the run has ended
        self.expect_quiet(run, ['--stages', '2', '--steps', '600'])
        self.assertTrue(seen)
        for cores in seen:
            self.assertEqual([len(own) for own in cores], [1, 1])
            self.assertFalse(cores[0] & cores[1])

    def test_replaces_killed_ranks_from_memory(self):
        # Each rank's state is also at its neighbour's, so no step is taken twice.
        steps = 40 * (OPTIONS.kills + 2)
        train = ['--stages', '2', '--steps', str(steps)]
        run = self.kill_often(OPTIONS.kills, steps, ['--processes', '2'], [*train, '--mirror'])
        self.expect_quiet(run, train, once=False)
        continued = run.named('continued')
        self.assertEqual(len(run.named('lost')), OPTIONS.kills)
        self.assertGreaterEqual(len(continued), 1)
        times = sorted(event['seconds'] for event in continued if event['seconds'] is not None)  # else the work was divided anew
        at = {source: sum(event['from'] == source for event in continued) for source in ('memory', 'checkpoint', 'start')}
        if at['memory'] == len(continued):
            self.assertEqual(run.repeated, 0)
        p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
        print(f'{OPTIONS.kills} kills: state from {at}; lines shown twice: {run.repeated}; seconds from a loss to the next step: '
              f'median {times[len(times) // 2]:.2f}, p99 {p99:.2f}, largest {times[-1]:.2f}')
        # A rank that is lost again before mirrors are filled takes state with it; that is rare.
        self.assertGreaterEqual(at['memory'], len(continued) - max(1, len(continued) // 10))

    def test_replaces_killed_ranks_from_checkpoints(self):
        train = ['--stages', '2', '--steps', '300', '--save', self.save, '--save-every', '20']
        run = self.kill_often(min(OPTIONS.kills, 20), 300, ['--processes', '2'], train)
        self.expect_quiet(run, ['--stages', '2', '--steps', '300'], once=False)  # some are taken twice
        for event in run.named('continued'):
            self.assertIn(event['from'], ('checkpoint', 'start', 'memory'))

    def test_grows_and_shrinks(self):
        changes = OPTIONS.changes
        steps = 40 * (changes + 1)
        train = [*AUTO, '--steps', str(steps)]
        log, picture = os.path.join(self.directory.name, 'quiet.jsonl'), os.path.join(self.directory.name, 'run.svg')
        with open(log, 'w', encoding='ascii') as file:
            subprocess.run([OPTIONS.binary, 'train', *MODEL, '--stages', '2', '--steps', str(steps), '--json'], stdout=file, check=True)
        run = self.launch(['--processes', '2', '--min-ranks', '1', '--max-restarts', str(changes), '--picture', picture, '--beside', log],
                          [*train, '--timeout', '10s'])
        next_at, ranks, done = 30, 2, 0
        for line in run.lines():
            if 'loss' not in line or line['step'] < next_at or done == changes:
                continue
            pids = run.pids()
            ways = ['add'] if ranks == 1 else ['shrink', 'leave', 'kill'] if ranks == 4 else ['add', 'shrink', 'leave', 'kill']
            way = self.random.choice(ways)
            if way == 'add':
                os.kill(run.process.pid, signal.SIGUSR1)
                ranks += 1
            elif way == 'shrink':
                os.kill(run.process.pid, signal.SIGUSR2)
                ranks -= 1
            elif way == 'leave':
                os.kill(self.random.choice(pids), signal.SIGTERM)
                ranks -= 1
            else:
                os.kill(self.random.choice(pids), signal.SIGKILL)
            done += 1
            next_at = line['step'] + 40
        self.expect_quiet(run, ['--stages', '2', '--steps', str(steps)])
        self.assertEqual(done, changes)
        self.assertTrue(run.named('replanned'))
        drawn = [element.text for element in ElementTree.parse(picture).iter('{http://www.w3.org/2000/svg}text')]
        self.assertIn(f'loss of each step, over that of quiet.jsonl (grey): {steps} losses have the same bits, and so have the weights',
                      drawn)
        for event in run.events:
            if 'pid' in event:
                self.assertIn(f'process {event["pid"]}', drawn)
        began = sum(words.startswith('after step ') for words in drawn)
        self.assertGreaterEqual(began, min(40, 1 + len(run.named('continued'))))
        print(f'{changes} changes: {len(run.named("joined"))} joined, {len(run.named("left"))} left, {len(run.named("lost"))} lost; '
              f'lines shown twice: {run.repeated}')

    def test_lets_none_leave_where_all_are_needed(self):
        run = self.launch(['--processes', '2', '--min-ranks', '2'], ['--stages', '2', '--steps', '100000'])
        stops = False
        for line in run.lines():
            if line.get('step') == 5 and 'loss' in line:
                run.process.send_signal(signal.SIGUSR2)
            said = b'SIGUSR2 lets no process leave: too few would be left' in os.pread(run.errors.fileno(), 4096, 0)
            if said and not stops:
                stops = True
                run.process.send_signal(signal.SIGTERM)
        self.assertTrue(stops)
        self.assertEqual(run.named('left'), [])
        self.assertEqual(run.ended, 130)
        losses, end = quiet(['--stages', '2', '--steps', str(run.last['steps'])])
        self.assertEqual(run.losses, losses)
        self.assertEqual(run.last['weights_hash'], end['weights_hash'])

    def test_goes_on_where_one_more_cannot_be_started(self):
        if OPTIONS.sanitized:
            self.skipTest('without a descriptor, the undefined-behaviour sanitizer cannot look at an object, and says that it is none')
        train = ['--stages', '2', '--steps', '40']
        run = self.launch(['--processes', '2', '--min-ranks', '2'], train)
        for line in run.lines():
            if line.get('step') == 5 and 'loss' in line:
                used = max(map(int, os.listdir(f'/proc/{run.process.pid}/fd'))) + 1
                resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE, (used, used))
                run.process.send_signal(signal.SIGUSR1)
        self.expect_quiet(run, train)
        lost, = run.named('lost')
        self.assertIsNone(lost['pid'])
        self.assertIn('to a new process', lost['error'])
        self.assertIn('Too many open files', lost['error'])

    def test_ends_a_rank_that_does_not_answer(self):
        run = self.launch(['--processes', '2'], ['--stages', '2', '--steps', '60', '--mirror', '--timeout', '3s'])
        for line in run.lines():
            if line.get('step') == 20 and not run.events:
                os.kill(run.pids()[1], signal.SIGSTOP)
        self.expect_quiet(run, ['--stages', '2', '--steps', '60'])
        self.assertTrue(run.named('lost')[0]['hung'])
        self.assertEqual(run.named('continued')[0]['from'], 'memory')

    def test_ends_a_rank_alone_that_stands_still(self):
        train = ['--stages', '1', '--steps', '60', '--save', self.save, '--save-every', '5', '--timeout', '2s']
        run = self.launch(['--processes', '1'], train)
        for line in run.lines():
            if line.get('step') == 20 and not run.events:
                os.kill(run.pids()[0], signal.SIGSTOP)
        self.expect_quiet(run, ['--stages', '1', '--steps', '60'], once=False)  # those after the checkpoint are taken again
        self.assertTrue(run.named('lost')[0]['hung'])

    def test_gives_a_slow_rank_less(self):
        if OPTIONS.churn == 0:
            self.skipTest('--churn 0')
        # The ranks agree on other work after a step, and nothing else changes. Of a long test: once more where it is fast again.
        model = [*SHAPE[:3], '--layers', '10', '--dim', '48', '--heads', '2', '--seq', '32', *SHAPE[11:]]
        train = ['--stages', '2', '--schedule', 'auto']
        run = self.launch(['--processes', '2'], [*train, '--steps', '100000'], model)
        slow, because, ends = None, [], False
        for line in run.lines():
            if line.get('step') == 1 and 'loss' in line:
                slow = Throttle(run.pids()[1], QUARTER)
            if line.get('event') == 'replanned':  # on a busy machine also for other reasons
                print(f'layers {line["partition"]}: {line["why"]}; bound {line["bound_seconds"]:.3g} s')
                self.assertLess(0, line['bound_seconds'])
                because.append('rank 1 takes' in line['why'])
                ends = LONG and any(because[:-1]) and not slow.thread.is_alive()
            if line.get('event') == 'gained' and any(because) and slow.thread.is_alive():
                print(line)
                slow.close()
                ends = not LONG
            if ends:
                ends = False  # a second signal would end it at once
                run.process.send_signal(signal.SIGTERM)
        self.assertTrue(any(because), run.events)
        for event in run.named('continued'):
            self.assertEqual(event['from'], 'memory')
        self.assertEqual(run.ended, 130)
        self.assertEqual(run.repeated, 0)
        losses, end = quiet([*train, '--steps', str(run.last['steps'])], model)
        self.assertEqual(run.losses, losses)
        self.assertEqual(run.last['weights_hash'], end['weights_hash'])

    def test_leaves_out_a_slow_edge(self):
        if OPTIONS.churn == 0:
            self.skipTest('--churn 0')
        if not SlowEdge.is_possible():
            self.skipTest("this machine gives nobody copies of another process's sockets")
        # Three ranks, and one of the three ways between them is slow: their order changes.
        model = [*SHAPE[:3], '--layers', '6', '--dim', '64', '--heads', '2', '--seq', '64', '--micro-batch-size', '4', *SHAPE[13:]]
        train = ['--stages', '3']
        run = self.launch(['--processes', '3'], [*train, '--steps', '100000'], model)
        edge, found, gained = None, False, None
        for line in run.lines():
            if edge is None and 'loss' in line:
                edge = SlowEdge(*run.pids()[:2])
            if 'event' in line:
                print(line)
            if line.get('event') == 'replanned':  # on a busy machine also for other reasons
                found = found or 'a message from rank 0 to rank 1 takes' in line['why']
            if line.get('event') == 'gained' and found and gained is None:
                gained = line
                edge.close()
                run.process.send_signal(signal.SIGTERM)
        self.assertTrue(found, run.events)
        self.assertGreaterEqual(edge.slowed, 4)
        self.assertLess(gained['step_seconds'], gained['before'])
        self.assertEqual(run.ended, 130)
        losses, end = quiet([*train, '--steps', str(run.last['steps'])], model)
        self.assertEqual(run.losses, losses)
        self.assertEqual(run.last['weights_hash'], end['weights_hash'])

    def test_churn(self):
        if OPTIONS.churn == 0:
            self.skipTest('--churn 0')
        # Whatever can happen to ranks, every few seconds, on one to four of them.
        run = self.launch(['--processes', '2', '--min-ranks', '1', '--max-restarts', '100000'],
                          [*AUTO, '--steps', '10000000', '--mirror', '--timeout', '3s', '--save', self.save, '--save-every', '100'])
        began = time.monotonic()
        next_at, faults, edges, first, left_open = began + 1, {}, [], None, None
        # Who was told to leave, and who was there when one was, whichever: the last one would end the run.
        leaving, shrinking = set(), set()
        for line in run.lines():
            now = time.monotonic()
            if first is None and 'loss' in line:
                first = descriptors(run.process.pid)
            if 'loss' not in line or now < next_at:
                continue
            if now > began + OPTIONS.churn:
                while edges:
                    edges.pop().close()
                # A socket and a pipe per process; those of one that is just ending are soon closed.
                left_open = max(0, descriptors(run.process.pid) - first - 2 * (len(run.pids()) - 2))
                if left_open == 0 or now > began + OPTIONS.churn + 30:
                    run.process.send_signal(signal.SIGTERM)
                    next_at = math.inf
                continue
            next_at = now + self.random.uniform(0.5, 3)
            pids = run.pids()
            stay = [pid for pid in pids if pid not in leaving]
            may_leave = len(stay) > 1 and not (shrinking and shrinking <= set(pids))
            ways = [way for way in ('kill', 'stop', 'add', 'leave', 'shrink', 'slow', 'edge') if
                    (way not in ('stop', 'edge') or len(pids) > 1) and (way not in ('leave', 'shrink') or may_leave) and
                    (way != 'edge' or SlowEdge.is_possible()) and (way != 'add' or len(pids) < 4)]
            way = self.random.choice(ways)
            faults[way] = faults.get(way, 0) + 1
            pid = self.random.choice(pids)
            try:
                if way == 'kill':
                    os.kill(pid, signal.SIGKILL)
                elif way == 'stop':  # it is missed within --timeout, and replaced
                    os.kill(pid, signal.SIGSTOP)
                elif way == 'leave':
                    pid = self.random.choice(stay)
                    leaving.add(pid)
                    os.kill(pid, signal.SIGTERM)
                elif way == 'add':
                    run.process.send_signal(signal.SIGUSR1)
                elif way == 'shrink':
                    shrinking = set(pids)
                    run.process.send_signal(signal.SIGUSR2)
                elif len(edges) < 8:
                    edges.append(Throttle(pid, QUARTER) if way == 'slow' else SlowEdge(*self.random.sample(pids, 2)))
                elif edges:
                    edges.pop(0).close()
            except ProcessLookupError:
                pass  # it has just left
        seconds = time.monotonic() - began
        run.errors.seek(0)
        self.assertEqual(run.ended, 130, f'{run.events[-8:]} {run.last} {run.errors.read()}')
        self.assertEqual(left_open, 0, 'descriptors of the supervisor that nobody closes')
        steps = run.last['steps']
        # Where the only rank is lost, or two at a time, the run goes back to what it has saved: it may end before a step that it has
        # shown.
        losses, end = quiet(['--stages', '2', '--steps', str(max(run.losses))])
        self.assertEqual(run.losses, losses)
        if steps < max(run.losses):
            end = quiet(['--stages', '2', '--steps', str(steps)])[1]
        self.assertEqual(run.last['weights_hash'], end['weights_hash'])
        sources = [found['from'] for found in run.named('continued')]
        print(f'{seconds:.0f} s of churn: {", ".join(f"{count} {way}" for way, count in sorted(faults.items()))}; '
              f'{len(sources)} groups, {sources.count("memory")} of them from memory, {sources.count("checkpoint")} from a checkpoint, '
              f'{len(run.named("replanned"))} new plans; {steps} steps in '
              f'{100 * steps * end["median_step_seconds"] / seconds:.0f} % of the time')

    def test_goes_on_with_fewer(self):
        run = self.launch(['--processes', '3', '--min-ranks', '2', '--max-restarts', '0'], [*AUTO, '--steps', '80'])
        for line in run.lines():
            if line.get('step') == 20 and not run.events:
                os.kill(self.random.choice(run.pids()), signal.SIGKILL)
        self.expect_quiet(run, ['--stages', '2', '--steps', '80'])

    def test_shows_again_what_is_taken_again(self):
        train = ['--stages', '2', '--steps', '300']
        log = os.path.join(self.directory.name, 'run.jsonl')
        run = self.launch(['--processes', '2', '--min-ranks', '2'], [*train, '--log', log])
        taken_again, killed, grown = [], False, False
        for line in run.lines():
            if run.named('continued') and 'loss' in line:
                taken_again.append(line['step'])
            if 'loss' in line and line['step'] == 250 and not killed:
                os.kill(run.pids()[1], signal.SIGKILL)  # with the only copy of its state
                killed = True
            elif taken_again and not grown:
                run.process.send_signal(signal.SIGUSR1)  # the group that has begun anew ends, and the next one goes on from memory
                grown = True
        self.expect_quiet(run, train, once=False)
        self.assertEqual([event['from'] for event in run.named('continued')], ['start', 'memory'])
        self.assertEqual(taken_again, list(range(1, 301)))
        with open(log, encoding='ascii') as file:
            self.assertEqual([found['step'] for found in map(json.loads, file) if 'loss' in found], taken_again)

    def test_a_table_has_each_row_once(self):
        # Every step is a row of so short a run. Rank 0 is lost, when any row may be the last one that it has shown.
        lost = 0
        for lost_after in (1, 2, 5):
            command = [OPTIONS.binary, 'launch', '--processes', '3', '--min-ranks', '2', '--max-restarts', '0', '--', 'train', *MODEL,
                       *AUTO, '--steps', '39']
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                rows, kills = [], 1
                for line in process.stdout:
                    lost += 'the loss' in line
                    if not re.match(r' +\d+ +\d\.\d+ ', line):
                        continue
                    rows.append(int(line.split()[0]))
                    children = pathlib.Path(f'/proc/{process.pid}/task/{process.pid}/children').read_text(encoding='ascii')
                    if rows[-1] >= lost_after and kills and children:
                        os.kill(int(children.split()[0]), signal.SIGKILL)
                        kills = 0
                self.assertEqual(process.wait(), 0)
            self.assertEqual(rows, list(range(1, 40)))
        self.assertGreater(lost, 0)

    def test_a_reader_that_leaves_ends_the_run(self):
        run = self.launch(['--processes', '2'], ['--stages', '2', '--steps', '100000', '--save', self.save])
        for line in run.lines():
            if line.get('step') == 5 and 'loss' in line:
                break
        run.process.stdout.close()
        self.assertEqual(run.process.wait(), 130)
        self.assertTrue(os.path.exists(os.path.join(self.save, 'latest')))
        run.errors.seek(0)
        self.assertEqual(run.errors.read().count('the reader of standard output is gone'), 1)

    def test_ends_at_once_though_the_reader_pauses(self):
        run = self.launch(['--processes', '2'],
                          ['--stages', '2', '--steps', '100000', '--save', self.save, '--save-every', '400', '--keep', 'all'])
        next(run.lines())
        while not os.path.exists(os.path.join(self.save, 'step-00000400')):  # more lines than a pipe holds
            time.sleep(0.05)
        while run.process.poll() is None:  # the first ends the run after its step, which waits for the reader; the second at once
            run.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        self.assertEqual(run.process.returncode, 130)

    def test_a_full_disk_does_not_end_the_run(self):
        with open('/dev/full', 'w', encoding='ascii') as full:
            done = subprocess.run([OPTIONS.binary, 'launch', '--processes', '2', '--', 'train', *MODEL, '--stages', '2', '--steps', '5',
                                   '--save', self.save], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=SILENCE)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('standard output cannot be written: No space left on device', done.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.save, 'step-00000005')))

    def test_too_few_are_left(self):
        run = self.launch(['--processes', '2', '--max-restarts', '0'], ['--stages', '2', '--steps', '100000', '--save', self.save])
        for line in run.lines():
            if line.get('step') == 5 and 'loss' in line:
                os.kill(run.pids()[0], signal.SIGKILL)
        code, errors = run.finish()
        self.assertEqual(run.ended, 5, errors)
        self.assertIn('1 process is left; expected at least 2 (--min-ranks)', errors)

    def test_a_run_is_done_once_it_has_shown_its_summary(self):
        for number in range(10):
            trace = os.path.join(self.directory.name, f'trace{number}.json')
            run = self.launch(['--processes', '2'], ['--stages', '2', '--steps', '2', '--trace', trace])
            for line in run.lines():
                if 'weights_hash' in line:
                    for rank in run.pids():
                        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                            os.kill(rank, signal.SIGKILL)
            code, errors = run.finish()
            self.assertEqual((code, errors), (0, ''))
            with open(trace, encoding='ascii') as file:
                self.assertTrue(json.load(file))

    def test_goes_on_wherever_its_first_save_was_cut_off(self):
        train = ['--stages', '2', '--steps', '6']
        for flags in ([], ['--overwrite']):
            cuts = 0
            for hit in range(1, 30):
                happened = os.path.join(self.directory.name, f'fault{len(flags)}-{hit}')
                save = os.path.join(self.directory.name, f'out{len(flags)}-{hit}')
                if flags:  # there are those of another run
                    quiet(['--stages', '2', '--steps', '9', '--save-every', '3', '--save', save, '--seed', '5'])
                self.runs.append(Launched(['--processes', '2', '--no-replan'], [*train, '--save', save, '--save-every', '3', *flags],
                                          MODEL, {'SLUICE_FAILPOINT': f'disk.rename:{hit}:kill', 'SLUICE_FAILPOINT_ONCE': happened}))
                self.expect_quiet(self.runs[-1], train, once=False)
                self.assertEqual(os.readlink(os.path.join(save, 'latest')), 'step-00000006')
                if not os.path.exists(happened):
                    break
                cuts += 1
            print(f'saves{" over those of another run" * len(flags)} cut off before each of {cuts} renames')
            self.assertGreaterEqual(cuts, 5)

    def test_nobody_takes_the_directory_while_ranks_are_replaced(self):
        train = ['--stages', '2', '--steps', '60', '--save', self.save, '--save-every', '10']
        run = self.launch(['--processes', '2', '--max-restarts', '4'], train)
        kills = [(12, [0]), (24, [1]), (36, [0, 1])]
        waiter = None
        for line in run.lines():
            if line.get('step') == 5 and 'loss' in line and waiter is None:
                # Has the lock as soon as the run lets go of it; a rank 0 that comes later is then refused.
                waiter = subprocess.Popen(['flock', os.path.join(self.save, '.sluice/lock'), 'cat'], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True)
            pids = run.pids()
            if kills and 'loss' in line and line['step'] >= kills[0][0] and len(pids) == 2:
                for place in kills.pop(0)[1]:
                    os.kill(pids[place], signal.SIGKILL)
        self.expect_quiet(run, ['--stages', '2', '--steps', '60'], once=False)
        self.assertEqual(kills, [])
        self.assertGreaterEqual(len(run.named('lost')), 3)
        self.assertEqual(waiter.communicate('free', timeout=SILENCE)[0], 'free')

    def test_saves_when_it_is_stopped(self):
        # Batch systems send SIGTERM to the ranks, too, which would leave if they alone had it.
        for how, to_all in ((signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)):
            run = self.launch(['--processes', '2'], ['--stages', '2', '--steps', '100000', '--save', self.save, '--overwrite'])
            for line in run.lines():
                if line.get('step') == 5 and 'loss' in line:
                    for pid in [*(run.pids() if to_all else []), run.process.pid]:
                        os.kill(pid, how)
            _, errors = run.finish()
            self.assertEqual(run.ended, 130)
            self.assertNotIn('--min-ranks', errors)
            self.assertTrue(run.last['interrupted'])
            self.assertTrue(os.path.exists(run.last['checkpoint']))

    def test_goes_on_where_it_was_started_to_ignore_a_signal(self):
        """By nohup, or by `&` in a script, whose Ctrl-C is for the script."""
        ends = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
        run = self.launch(['--processes', '2'], ['--stages', '2', '--steps', '30'], ignored=ends)
        for line in run.lines():
            if line.get('step') in (5, 6) and 'loss' in line:
                for each in ends:
                    run.process.send_signal(each)
                    for pid in run.pids():  # a terminal sends it to all of them
                        os.kill(pid, each)
        self.expect_quiet(run, ['--stages', '2', '--steps', '30'])

        run = self.launch(['--processes', '2'], ['--stages', '2', '--steps', '100000'], ignored=ends)
        next(run.lines())
        run.process.stdout.close()  # nobody can read the rest, whatever is ignored
        self.assertEqual(run.process.wait(), 130)

    def test_takes_the_words_of_train_letter_for_letter(self):
        for words, wanted in ((['--data', '[a,b]'], "cannot open the data '[a,b]'"), (['--data=[]'], "cannot open the data '[]'")):
            done = subprocess.run([OPTIONS.binary, 'launch', '--processes', '1', '--', 'train', *words],
                                  capture_output=True, text=True, check=False, timeout=SILENCE)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(wanted, done.stderr)

    def test_json_may_be_said_to_be_true(self):
        for said, wanted in (('--json=true', 1), ('--json=false', 0)):
            command = [OPTIONS.binary, 'launch', '--processes', '1', '--', 'train', *MODEL, '--steps', '39', said]
            events, kills = 0, 1
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                for line in process.stdout:
                    events += '"event":"lost"' in line
                    if kills and re.match(r' +5 +\d|{"step":5,', line):
                        os.kill(children(process.pid)[0], signal.SIGKILL)
                        kills = 0
            self.assertEqual((process.wait(), events, kills), (0, wanted, 0))

    def test_ranks_do_not_outlive_their_supervisor(self):
        run = self.launch(['--processes', '2'], ['--stages', '2', '--steps', '100000', '--save', self.save])
        pids = []
        for line in run.lines():
            if line.get('step') == 5 and 'loss' in line:
                pids = run.pids()
                run.process.kill()
        # They have saved, and said so, before the pipe was closed.
        self.assertTrue(run.last.get('interrupted'), run.last)
        self.assertTrue(os.path.exists(run.last['checkpoint']))
        for pid in pids:
            while os.path.exists(f'/proc/{pid}'):
                time.sleep(0.05)

    def test_says_what_is_wrong_once(self):
        for launch, train, wanted in (
                (['--processes', '2'], ['--stages', '3'], 'sluice launch has 2 processes, but the run has 3 ranks'),
                (['--processes', '2'], ['--stages', '2', '--data', '/nonexistent'], "cannot open the data '/nonexistent'"),
                (['--processes', '2'], ['--stages', '2', '--rank', '0', '--world-size', '2'], 'leave out --transport, --rank'),
                (['--processes', '2', '--min-ranks', '3'], [], '--min-ranks 3 is more than --processes 2'),
                (['--processes', '2', '--picture', '/nonexistent/run.svg'], ['--stages', '2'], '/nonexistent/run.svg'),
                (['--processes', '2', '--picture', 'run.svg', '--beside', str(WORDS)], ['--stages', '2'], 'no line has a step and its loss'),
                (['--processes', '2', '--beside', str(WORDS)], ['--stages', '2'], '--picture'),
        ):
            with self.subTest(wanted=wanted):
                own = [flag for flag in MODEL if '--data' not in train or flag not in ('--data', str(WORDS))]
                done = subprocess.run([OPTIONS.binary, 'launch', *launch, '--', 'train', *own, *train, '--steps', '2'],
                                      capture_output=True, text=True, check=False, timeout=SILENCE)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(wanted, done.stderr)
                self.assertEqual(done.stderr.count('\n'), 1, done.stderr)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument('binary')
    parser.add_argument('--kills', type=int, default=100 if LONG else 4)
    parser.add_argument('--changes', type=int, default=20 if LONG else 5)
    parser.add_argument('--churn', type=float, default=1200 if LONG else 15, help='seconds; 0: not at all, and nothing is slow')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--sanitized', action='store_true', help='the binary has sanitizers')
    OPTIONS, rest = parser.parse_known_args()
    googletest_cases.main('faults_launch_test', rest)


if __name__ == '__main__':
    main()
