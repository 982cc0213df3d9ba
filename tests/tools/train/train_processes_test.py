#!/usr/bin/env python3
"""`sluice train` in many processes, started directly, by mpirun and with torchrun's environment: the same bits as one process;
ranks that are killed, and runs that resume from their checkpoints; ranks with different settings.

  tests/tools/train/train_processes_test.py BINARY [--every N] [--kills N] [--paused-steps N] [--seed N]
                                                   [--hanging-calls LIBRARY] [unittest's own arguments]

--every N takes each N-th of the configurations (1: all of them). LIBRARY is what tests/faults/hanging_calls.cc becomes.
"""
import argparse
import faulthandler
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
sys.path[:0] = [str(TOOLS), str(TOOLS / 'testing')]

import googletest_cases  # noqa: E402
from gpu_check.training import free_port  # noqa: E402

WORDS = pathlib.Path(__file__).resolve().parents[2] / 'models/tokens/fixtures/llama2.json'  # 430 of them
OPTIONS = None
MPIRUN = shutil.which('mpirun')
# Other tests run beside: ranks that are pinned to the same cores as theirs would wait for each other.
MODEL = ['--layers', '4', '--dim', '32', '--heads', '2', '--seq', '16', '--micro-batch-size', '2', '--eval-micro-batches', '4', '--no-pin']
PATIENCE = 180  # seconds within which every run ends, even on a slow machine
SILENCE = 420  # seconds after which a case that starts nothing new says where it waits, and ends


def watch():
    """Called where a case begins and where a program is started, since some cases start hundreds."""
    faulthandler.dump_traceback_later(SILENCE, exit=True)


def replaced(flags, own):
    """`flags` with other values for some of them."""
    mine = list(flags)
    for flag, value in own.items():
        if flag in mine:
            mine[mine.index(flag) + 1] = value
        else:
            mine += [flag, value]
    return mine


class Ranks:
    """The processes of one run over TCP, rank by rank."""

    def __init__(self, world, flags, environment=None, own=None):
        watch()
        self.port = str(free_port())
        self.processes = []
        for rank in range(world):
            mine = replaced(flags, (own or {}).get(rank, {}))
            where = {} if environment is None else environment(rank, world, self.port)
            if environment is None:
                mine = mine + ['--rank', str(rank), '--world-size', str(world), '--master-addr', '127.0.0.1',
                               '--master-port', self.port]
            self.processes.append(subprocess.Popen([OPTIONS.binary, 'train', *mine], stdout=subprocess.PIPE,
                                                   stderr=subprocess.PIPE, text=True, env={**os.environ, **where}))

    def await_line(self, text):
        """Reads the output of rank 0 up to a line with `text`; raises AssertionError if it ends before."""
        for line in self.processes[0].stdout:
            if text in line:
                return
        raise AssertionError(f'no line with {text!r}: {self.finish()}')

    def first_line(self):
        """The first line of rank 0's output, and no more: finish() does not see what a reader of lines has read ahead."""
        line = b''
        while not line.endswith(b'\n'):
            byte = os.read(self.processes[0].stdout.fileno(), 1)
            if not byte:
                break
            line += byte
        return line.decode()

    def finish(self):
        """[rank] (exit code, stdout, stderr); a process that does not end in time is killed, and the test fails."""
        ended = []
        deadline = time.monotonic() + PATIENCE
        try:
            for process in self.processes:
                out, err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
                ended.append((process.returncode, out, err))
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return ended


def stop_and_go(process):
    """Lets `process` run for a tenth of the time only, until it ends."""
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.018)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.002)


def pause(pids, seconds):
    """Stops all of them for that time, as Ctrl-Z, `docker pause` and Slurm do."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)


def torchrun(rank, world, port):
    """The variables that torchrun sets for a process."""
    return {'RANK': str(rank), 'WORLD_SIZE': str(world), 'LOCAL_RANK': str(rank), 'MASTER_ADDR': '127.0.0.1',
            'MASTER_PORT': port}


def run(command, environment=None):
    watch()
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


def here(flags):
    return run([OPTIONS.binary, 'train', *flags])


def mpi_environment():
    # Open MPI does not free some memory, which a leak checker would report.
    sanitizer = os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'
    return {**os.environ, 'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'ASAN_OPTIONS': sanitizer}


def mpi_command(world, flags, before=()):
    return [MPIRUN, '--mca', 'plm', 'isolated', '--oversubscribe', '-n', str(world), *before, OPTIONS.binary, 'train', *flags]


def mpi(world, flags):
    return run(mpi_command(world, flags), mpi_environment())


# Runs a rank's command and prints its exit code, whatever signals mpirun sends to the two.
REPORTER = ['sh', '-c', 'trap "" TERM; "$@"; code=$?; echo "rank $OMPI_COMM_WORLD_RANK ended with $code" >&2; exit $code', '-']


def lives(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
            return ') Z ' not in file.read()
    except OSError:
        return False


class UnderMpirun:
    """The processes of one run under mpirun. `before`: a command that runs each rank's command."""

    def __init__(self, world, flags, before=()):
        watch()
        self.mpirun = subprocess.Popen(mpi_command(world, flags, before), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, env={**mpi_environment(), 'SLUICE_TEST_RUN': str(id(self))})
        self.world = world
        self.out = []
        self.reader = threading.Thread(target=lambda: self.out.extend(self.mpirun.stdout))
        self.reader.start()

    def await_step(self):
        self.await_line('"step"')

    def await_line(self, text):
        deadline = time.monotonic() + PATIENCE
        while not any(text in line for line in list(self.out)) and time.monotonic() < deadline:
            if self.mpirun.poll() is not None:
                break
            time.sleep(0.01)

    def ranks(self):
        """[rank] the process number of the program."""
        found = {}
        for name in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{name}/environ', 'rb') as file:
                    values = dict(pair.split(b'=', 1) for pair in file.read().split(b'\0') if b'=' in pair)
                if os.readlink(f'/proc/{name}/exe') == os.path.realpath(OPTIONS.binary) and \
                        values.get(b'SLUICE_TEST_RUN') == str(id(self)).encode():
                    found[int(values[b'OMPI_COMM_WORLD_RANK'])] = int(name)
            except (OSError, KeyError):
                continue  # it has ended
        return [found[rank] for rank in sorted(found)]

    def finish(self):
        """(mpirun's exit code, its stderr)"""
        try:
            self.mpirun.wait(timeout=PATIENCE)
        finally:
            self.mpirun.kill()
            self.reader.join()
            err = self.mpirun.stderr.read()
            self.mpirun.stderr.close()
            self.mpirun.stdout.close()
        return self.mpirun.returncode, err


def bits(out):
    """The values that must be equal: every loss and norm, and the final weights."""
    lines = [json.loads(line) for line in out.splitlines()]
    steps = [(line['step'], line['loss_hex'], line['grad_norm']) for line in lines if 'loss_hex' in line]
    done = lines[-1]
    return steps, done['weights_hash'], done.get('eval_loss')


def configurations():
    """(ranks of the pipeline, replicas, flags), small worlds first, of every schedule, ZeRO stage and type."""
    shapes = [('1f1b', 1, []), ('gpipe', 2, []), ('1f1b', 2, []), ('zb-h1', 2, []), ('interleaved', 2, ['--chunks', '2']),
              ('zbv', 2, []), ('v-half', 2, []), ('1f1b', 3, []), ('zb-2p', 3, []), ('eager-1f1b', 3, [])]
    replicas = [(1, 0), (2, 0), (2, 1), (2, 2), (3, 1)]
    found = []
    for number, ((schedule, ranks, more), (copies, zero)) in enumerate(itertools.product(shapes, replicas)):
        if ranks * copies > 6:
            continue
        dtype = 'bf16' if number % 3 == 2 else 'fp32'
        recompute = ['none', 'selective', 'full'][number % 3]
        ahead = ['--recompute-ahead'] if recompute != 'none' and number % 2 == 0 else []
        flags = ['--schedule', schedule, '--stages', str(ranks), *more, '--micro-batches', '6', '--dtype', dtype,
                 '--recompute', recompute, *ahead, '--data-parallel', str(copies), '--zero', str(zero)]
        found.append((ranks, copies, flags))
    # Stages with several members; fewer ranks first, and not at the end, so that short runs have some.
    for number, (replicas, more) in enumerate([([2, 1], []), ([1, 2, 1], ['--zero', '1', '--dtype', 'bf16']),
                                               ([3, 1], ['--schedule', 'zb-h1', '--sum-groups', '3']), ([2, 3], [])]):
        shape = ['--stage-replicas', ','.join(map(str, replicas)), '--micro-batches', '6', *more]
        found.insert(4 * number + 3, (sum(replicas), 1, shape))
    return found


class TrainProcesses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = os.path.join(cls.folder.name, 'text.txt')
        with open(cls.data, 'w', encoding='ascii') as file:
            file.write('the quick brown fox jumps over the lazy dog. ' * 400)
        cls.other_data = os.path.join(cls.folder.name, 'other.txt')
        with open(cls.other_data, 'w', encoding='ascii') as file:
            file.write('the quick brown fox jumps over the lazy cat. ' * 400)
        cls.random = random.Random(OPTIONS.seed)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        watch()
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def flags(self, *more, timeout=60):
        return ['--data', self.data, *MODEL, '--json', '--timeout', f'{timeout}s', *more]

    def assert_same_bits(self, one, other, what):
        self.assertEqual(one[0], 0, one[2])
        self.assertEqual(other[0], 0, f'{what}: {other[2]}')
        self.assertEqual(bits(one[1]), bits(other[1]), what)

    def test_same_bits_under_mpirun(self):
        if MPIRUN is None:
            self.skipTest('needs mpirun')
        # From the fourth at the latest: each of the few with replicated stages comes four after another.
        for ranks, copies, shape in configurations()[3 % OPTIONS.every::OPTIONS.every]:
            flags = self.flags('--steps', '3', *shape)
            self.assert_same_bits(here(flags), mpi(ranks * copies, flags), shape)

    def test_same_bits_over_tcp_by_flags_and_under_torchrun(self):
        for number, (ranks, copies, shape) in enumerate(configurations()[3::2 * OPTIONS.every]):
            flags = self.flags('--steps', '3', *shape)
            ended = Ranks(ranks * copies, flags, torchrun if number % 2 else None).finish()
            self.assert_same_bits(here(flags), ended[0], shape)
            for code, out, err in ended[1:]:
                self.assertEqual((code, out, err), (0, '', ''), 'only rank 0 speaks')

    def test_adapters_on_packed_documents_have_the_bits_of_one_process(self):
        lines = os.path.join(self.folder.name, 'lines.jsonl')
        with open(lines, 'w', encoding='ascii') as file:
            for number in range(120):  # of different lengths, several to a window
                file.write(json.dumps({'prompt': 'abcdefg'[number % 7], 'completion': 'hijk'[:number % 5]}) + '\n')
        documents = replaced(self.flags('--steps', '3', '--vocab', '430', '--sum-groups', '4', '--validation', '0',
                                        '--tokenizer', str(WORDS)), {'--data': lines})
        base, adapter = (os.path.join(self.folder.name, name) for name in ('base', 'adapter'))
        self.assertEqual(here([*documents, '--stages', '1', '--micro-batches', '4', '--save', base])[0], 0)
        lora = [*documents, '--init', os.path.join(base, 'latest'), '--lora', 'r=4,alpha=8,dropout=0.1', '--lr', '1e-2']
        pipeline = ['--stages', '2', '--micro-batches', '4']
        replicas = ['--stages', '2', '--micro-batches', '2', '--data-parallel', '2', '--zero', '1']
        one = here([*lora, '--stages', '1', '--micro-batches', '4'])
        self.assertNotEqual(bits(one[1]), bits(here([*lora, '--stages', '1', '--micro-batches', '4', '--no-pack'])[1]))
        self.assert_same_bits(one, Ranks(2, [*lora, *pipeline, '--save', adapter, '--save-every', '1']).finish()[0], 'TCP')
        self.assert_same_bits(one, Ranks(4, [*lora, *replicas], torchrun).finish()[0], 'torchrun')
        # From an adapter alone, whose base is hashed by the ranks that hold it.
        resumed = [*lora, *replicas, '--resume', os.path.join(adapter, 'step-00000002')]
        ended = [Ranks(4, resumed).finish()[0]]
        if MPIRUN is not None:
            self.assert_same_bits(one, mpi(4, [*lora, *replicas]), 'mpirun')
            ended.append(mpi(4, resumed))
        for code, out, err in ended:
            self.assertEqual(code, 0, err)
            self.assertEqual(bits(out)[1], bits(one[1])[1])

    def test_replicated_stages_have_the_bits_of_one_pipeline(self):
        def flags(*shape):
            return self.flags('--steps', '3', '--micro-batches', '6', '--sum-groups', '6', *shape)

        one = here(flags('--stages', '1', '--schedule', 'gpipe'))
        for shape in ['--stage-replicas', '2,1'], ['--stage-replicas', '1,3', '--zero', '1', '--schedule', 'zb-h1']:
            self.assert_same_bits(one, here(flags(*shape)), shape)

    def test_ranks_that_mirror_each_other_have_the_bits_of_one_process(self):
        flags = self.flags('--steps', '3', '--micro-batches', '4', '--dtype', 'bf16')
        one = here([*flags, '--stages', '1'])
        mirrored = [*flags, '--stages', '3', '--mirror']
        self.assert_same_bits(one, Ranks(3, mirrored).finish()[0], 'TCP')
        if MPIRUN is not None:
            self.assert_same_bits(one, mpi(3, mirrored), 'mpirun')

    def test_torchruns_agent_is_told_why_a_rank_has_failed(self):
        def told_in(rank, world, port):
            return {**torchrun(rank, world, port), 'TORCHELASTIC_ERROR_FILE': os.path.join(self.folder.name, f'why-{rank}.json')}

        def told(rank):
            # As torch.distributed.elastic.multiprocessing.errors reads it.
            with open(os.path.join(self.folder.name, f'why-{rank}.json'), encoding='utf-8') as file:
                message = json.load(file)['message']
            return message['message'], {**message['extraInfo'], 'timestamp': int(message['extraInfo']['timestamp'])}

        began = int(time.time())
        ranks = Ranks(3, self.flags('--steps', '1000000', '--stages', '3'), told_in)
        ranks.await_line('"step"')
        ranks.processes[1].kill()
        ended = ranks.finish()
        self.assertEqual([code for code, _, _ in ended], [5, -signal.SIGKILL, 5])
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, 'why-1.json')))
        for rank in 0, 2:
            message, facts = told(rank)
            self.assertRegex(message, rf'^rank {rank}.*: rank 1 is gone')
            self.assertEqual((facts['rank'], facts['lost'], facts['exit_code']), (rank, 1, 5))
            # The agent takes the earliest for the cause: the rank that was killed, of which it notes the time itself.
            self.assertGreater(facts['timestamp'], began)
        self.assertEqual(ended[0][2], f'sluice: {told(0)[0]}\n')

        Ranks(1, ['--no-flag'], told_in).finish()
        self.assertIn('--no-flag is no flag', told(0)[0])
        own = {2: {'--data': os.path.join(self.folder.name, 'none.txt')}}
        ended = Ranks(3, self.flags('--steps', '3', '--stages', '3'), told_in, own).finish()
        for rank in range(3):
            message, facts = told(rank)
            self.assertIn("none.txt': No such file", message)
            self.assertEqual((ended[rank][0], facts['exit_code']), (2, 2))

    def test_what_is_killed_goes_on_to_the_same_bits(self):
        shapes = [(2, 1, 0), (3, 1, 0), (2, 2, 1), (1, 3, 2), (4, 1, 0), ([2, 1], 1, 1), (1, 1, 0)]

        def flags(shape, save):
            ranks, copies, zero = shape
            # Six micro-batches and six groups, on whatever ranks.
            each = ['--micro-batches', str(6 // copies), '--sum-groups', '6']
            each += ['--stage-replicas', ','.join(map(str, ranks))] if isinstance(ranks, list) else ['--stages', str(ranks)]
            return self.flags('--steps', '40', '--save-every', '4', *each, '--data-parallel', str(copies), '--zero', str(zero),
                              '--save', save, timeout=OPTIONS.timeout)

        def size(shape):
            return sum(shape[0]) if isinstance(shape[0], list) else shape[0] * shape[1]

        expected = here(flags((1, 1, 0), os.path.join(self.folder.name, 'whole')))
        self.assertEqual(expected[0], 0, expected[2])
        for number in range(OPTIONS.kills):
            save = os.path.join(self.folder.name, f'killed-{number}')
            shape = self.random.choice(shapes[:-1])
            victim = self.random.randrange(size(shape))
            # One while they meet, the others after any line of their output, which is a step or a checkpoint.
            self.kill_one(flags(shape, save), size(shape), victim, after_lines=number and self.random.randrange(1, 36))
            # If it was killed between the first checkpoint and its link, it starts again beside that checkpoint.
            resume = ['--resume', save] if os.path.islink(os.path.join(save, 'latest')) else ['--overwrite']
            other = self.random.choice(shapes)
            again = flags(other, save) + resume
            world = size(other)
            ended = here(again) if world == 1 or number % 2 else Ranks(world, again).finish()[0]
            self.assertEqual(ended[0], 0, ended[2])
            self.assertEqual(bits(ended[1])[1:], bits(expected[1])[1:], f'{shape}, rank {victim} killed, then {other}')
            shutil.rmtree(save)

    def kill_one(self, flags, world, victim, after_lines):
        ranks = Ranks(world, flags)
        for _ in range(after_lines):
            if not ranks.processes[0].stdout.readline():
                break
        ranks.processes[victim].kill()
        ended = ranks.finish()
        if ended[victim][0] != -signal.SIGKILL:
            return  # it was done before
        told = [err for rank, (code, _, err) in enumerate(ended) if rank != victim and code == 5 and err]
        for rank, (code, _, err) in enumerate(ended):
            if rank != victim:
                self.assertIn(code, (0, 5), f'rank {rank} of {world}, {victim} killed: {err}')
        if any(code == 5 for code, _, _ in ended):
            self.assertTrue(any(f'rank {victim}' in err for err in told), f'{victim} killed: {told}')

    def killed_under_mpirun(self, world, shape, victim, before=()):
        """mpirun's stderr, after a rank has been killed and all processes have ended."""
        # A time-out longer than anything is waited for here: that a rank is lost is seen at once.
        flags = self.flags('--steps', '1000000', *shape, timeout=10 * PATIENCE)
        job = UnderMpirun(world, flags, before)
        job.await_step()
        time.sleep(self.random.uniform(0, 0.2))  # so that it dies at different actions
        ranks = job.ranks()
        self.assertEqual(len(ranks), world)
        os.kill(ranks[victim], signal.SIGKILL)
        code, err = job.finish()
        self.assertNotEqual(code, 0)
        deadline = time.monotonic() + PATIENCE
        while any(map(lives, ranks)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(any(map(lives, ranks)), 'nobody lives on')
        return err

    def test_a_rank_killed_under_mpirun_is_named_once(self):
        if MPIRUN is None:
            self.skipTest('needs mpirun')
        in_action = 0
        for victim, world, shape in [(0, 2, ['--stages', '2']), (1, 2, ['--stages', '2']), (1, 3, ['--stages', '3']),
                                     (2, 3, ['--stages', '3']), (3, 4, ['--stages', '2', '--data-parallel', '2']),
                                     (1, 3, ['--stage-replicas', '2,1'])]:
            err = self.killed_under_mpirun(world, shape, victim)
            said = [line for line in err.splitlines() if line.startswith('sluice: ')]
            self.assertEqual(len(said), 1, err)
            self.assertRegex(said[0], rf'rank \d.*(action \S+|end of (step \d+|the step)): rank {victim} is gone')
            in_action += re.search(r'rank \d.*, stage \d, micro-batch \d, action \S+: rank ', said[0]) is not None
        self.assertGreater(in_action, 0, 'some were killed in the middle of a step')

    def test_ranks_under_mpirun_end_with_5_when_one_is_killed(self):
        if MPIRUN is None:
            self.skipTest('needs mpirun')
        err = self.killed_under_mpirun(3, ['--stages', '3'], 1, REPORTER)
        for rank, code in enumerate([5, 137, 5]):
            self.assertIn(f'rank {rank} ended with {code}', err)

    def test_ranks_under_mpirun_end_by_themselves_when_one_hangs(self):
        library = OPTIONS.hanging_calls
        if MPIRUN is None or library is None:
            self.skipTest('needs mpirun and --hanging-calls')
        calls = pathlib.Path(self.folder.name) / 'calls'
        calls.mkdir()
        preload = f'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then export LD_PRELOAD={library} SLUICE_HANGING_CALLS={calls}; fi; '
        reporter = [*REPORTER[:2], preload + REPORTER[2], '-']
        job = UnderMpirun(2, self.flags('--steps', '1000000', '--stages', '2', timeout=self.SHORT), reporter)
        job.await_step()
        (calls / 'dnnl_primitive_execute').touch()
        code, err = job.finish()
        self.assertEqual(code, 5, err)
        self.assertIn('rank 1, stage 1, micro-batch ', err)
        self.assertIn('hangs', err)
        # mpirun, which ends the job as soon as one rank has ended, would kill the other two seconds later.
        for rank in range(2):
            self.assertIn(f'rank {rank} ended with 5', err)

    def test_sigterm_under_mpirun_ends_the_job_with_a_checkpoint(self):
        if MPIRUN is None:
            self.skipTest('needs mpirun')
        save = os.path.join(self.folder.name, 'ended')
        job = UnderMpirun(2, self.flags('--steps', '1000000', '--stages', '2', '--save', save))
        job.await_step()
        os.kill(job.ranks()[1], signal.SIGTERM)  # nobody is lost
        _, err = job.finish()
        self.assertNotIn('sluice: ', err)
        self.assertTrue(os.path.exists(os.path.join(save, 'latest', 'state.json')), err)

    def test_a_rank_that_does_not_come_to_mpi_is_missed_by_the_timeout(self):
        if MPIRUN is None:
            self.skipTest('needs mpirun')
        absent = ['sh', '-c', 'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then exec sleep 600; fi; exec "$@"', '-']
        job = UnderMpirun(2, self.flags('--steps', '3', '--stages', '2', timeout=self.SHORT), absent)
        code, err = job.finish()
        self.assertEqual(code, 5, err)
        said = [line for line in err.splitlines() if line.startswith('sluice: ')]
        self.assertEqual(said, ['sluice: rank 0 waited 3s for all ranks to meet, but not all came; another rank of the job '
                                'was probably lost or stopped'], err)

    def test_a_signal_stops_all_ranks_after_the_step_with_a_checkpoint(self):
        save = os.path.join(self.folder.name, 'terminated')
        for world, stop in (1, signal.SIGTERM), (2, signal.SIGTERM), (2, signal.SIGHUP):
            ranks = Ranks(world, self.flags('--steps', '1000000', '--stages', str(world), '--save', save))
            ranks.processes[0].stdout.readline()
            ranks.processes[-1].send_signal(stop)
            ended = ranks.finish()
            self.assertEqual([code for code, _, _ in ended], [130] * world, ended)
            self.assertTrue(json.loads(ended[0][1].splitlines()[-1])['interrupted'])
            self.assertTrue(os.path.exists(os.path.join(save, 'latest', 'state.json')))
            shutil.rmtree(save)

    def test_a_rank_that_stops_while_the_others_save_or_hash_is_missed(self):
        save = os.path.join(self.folder.name, 'stopped')
        for steps, every, line in ('1000000', '1', 'checkpoint'), ('2', '1000', 'evaluated_step'):
            ranks = Ranks(2, self.flags('--steps', steps, '--stages', '2', '--save', save, '--save-every', every, '--overwrite',
                                        timeout=self.SHORT))
            ranks.await_line(line)
            ranks.processes[0].send_signal(signal.SIGSTOP)
            code = ranks.processes[1].wait(timeout=PATIENCE)
            ranks.processes[0].kill()
            ended = ranks.finish()
            # It may have been stopped when all was done.
            self.assertIn(code, (5,) if line == 'checkpoint' else (0, 5), ended)

    def test_a_reader_that_pauses_does_not_stop_the_run(self):
        ranks = Ranks(2, self.flags('--steps', '400', '--stages', '2', timeout=self.SHORT))
        # A pipe holds some 150 of these lines, so rank 0 would wait for its reader in the middle of the run.
        self.assertEqual(ranks.processes[1].wait(timeout=PATIENCE), 0)
        ended = ranks.finish()
        self.assertEqual(ended[0][0], 0, ended[0][2])
        self.assertEqual(len(bits(ended[0][1])[0]), 400)

    def test_a_reader_that_leaves_stops_the_run_with_a_checkpoint(self):
        save = os.path.join(self.folder.name, 'unread')
        ranks = Ranks(2, self.flags('--steps', '1000000', '--stages', '2', '--save', save))
        ranks.processes[0].stdout.readline()
        ranks.processes[0].stdout.close()
        codes = [process.wait(timeout=PATIENCE) for process in ranks.processes]
        said = ranks.processes[0].stderr.read()
        self.assertEqual(codes, [130, 130], said)
        self.assertEqual(said, 'sluice: the reader of standard output is gone; the run ends after this step\n')
        self.assertTrue(os.path.exists(os.path.join(save, 'latest', 'state.json')))
        for process in ranks.processes:
            process.communicate()

    def test_output_that_cannot_be_written_is_an_error(self):
        for command in (['train', *self.flags('--steps', '2')], ['train', *(flag for flag in self.flags('--steps', '2') if flag != '--json')], ['--help'], ['doctor'],
                        ['schedule', 'list'], ['plan', '--help']):
            watch()
            with open('/dev/full', 'w', encoding='ascii') as full:
                done = subprocess.run([OPTIONS.binary, *command], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2, (command, done.stderr))
            self.assertIn('standard output: cannot write', done.stderr)

    SHORT, LONGER = 3, 3.5  # seconds: a time-out, and a pause

    def paused_flags(self):
        return self.flags('--steps', str(OPTIONS.paused_steps), '--stages', '2', timeout=self.SHORT)

    def pause_twice(self, job, pids):
        """Whether it was at work before each of the pauses."""
        for _ in range(2):
            if job.poll() is not None:
                return False
            pause(pids(), self.LONGER)
            time.sleep(0.05)  # so that the two pauses meet different actions
        return True

    def test_a_pause_of_the_whole_job_is_no_fault(self):
        flags = self.paused_flags()
        undisturbed = here(flags)
        for world, environment in [(1, lambda *_: {}), (2, None)]:  # threads of one process, and TCP
            ranks = Ranks(world, flags, environment)
            first = ranks.first_line()
            paused = self.pause_twice(ranks.processes[0], lambda ranks=ranks: [process.pid for process in ranks.processes])
            ended = ranks.finish()
            code, out, err = ended[0]
            self.assertEqual([code for code, _, _ in ended], [0] * world, ended)
            self.assert_same_bits(undisturbed, (code, first + out, err), f'{world} processes')
            self.assertTrue(paused, 'it must not have been done before')

    def test_a_pause_of_the_whole_job_under_mpirun_is_no_fault(self):
        if MPIRUN is None:
            self.skipTest('needs mpirun')
        flags = self.paused_flags()
        job = UnderMpirun(2, flags)
        job.await_step()
        paused = self.pause_twice(job.mpirun, lambda: [job.mpirun.pid, *job.ranks()])
        code, err = job.finish()
        self.assert_same_bits(here(flags), (code, ''.join(job.out), err), 'mpirun')
        self.assertTrue(paused, 'it must not have been done before')

    def test_checkpoints_are_the_same_whoever_shares_a_file_system(self):
        # The second and the third rank have their own folders, which rank 0 does not see.
        names = ['model.safetensors', 'config.json', 'optimizer.safetensors', 'state.json']
        def saved(folder):
            return [pathlib.Path(folder, 'latest', name).read_bytes() for name in names]
        folders = [os.path.join(self.folder.name, f'shared-{number}') for number in range(4)]
        shape = ['--steps', '2', '--stages', '2', '--data-parallel', '2', '--zero', '1']
        self.assertEqual(here(self.flags(*shape, '--save', folders[0]))[0], 0)
        together = Ranks(4, self.flags(*shape, '--save', folders[1])).finish()
        apart = Ranks(4, self.flags(*shape, '--save', folders[2]), own={1: {'--save': folders[3]},
                                                                       2: {'--save': folders[3]}}).finish()
        self.assertEqual([code for code, _, _ in together + apart], [0] * 8, together + apart)
        self.assertEqual(saved(folders[0]), saved(folders[1]))
        self.assertEqual(saved(folders[0]), saved(folders[2]))
        self.assertFalse(os.path.exists(folders[3]))

    def test_a_rank_that_cannot_write_its_part_is_named_and_the_run_goes_on(self):
        save = os.path.join(self.folder.name, 'limited')
        flags = self.flags('--steps', '1000000', '--save-every', '2', '--stages', '2', '--save', save)
        ranks = Ranks(2, flags)

        def limit(size):  # the most bytes that rank 1 may write of a file
            resource.prlimit(ranks.processes[1].pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        def saved():
            return int(os.readlink(os.path.join(save, 'latest')).split('-')[1])

        ranks.await_line('checkpoint')
        limit(8192)
        said = ranks.processes[0].stderr.readline()
        self.assertRegex(said, r'^sluice: rank 1, checkpoint of step \d+: cannot write .*; '
                               'the run goes on without this checkpoint$')
        failed = int(re.search(r'step (\d+)', said)[1])
        self.assertLess(saved(), failed)
        limit(resource.RLIM_INFINITY)
        deadline = time.monotonic() + PATIENCE
        while saved() <= failed and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertGreater(saved(), failed)
        limit(8192)
        ranks.processes[0].send_signal(signal.SIGTERM)
        ended = ranks.finish()
        self.assertEqual([code for code, _, _ in ended], [6, 6], ended)
        self.assertRegex(ended[0][2].splitlines()[-1], '^sluice: rank 1, checkpoint of step .*: cannot write [^;]*$')
        self.assertRegex(' '.join(sorted(os.listdir(save))), r'^\.sluice latest run\.toml( step-\d+)+$')
        self.assertEqual(sorted(os.listdir(os.path.join(save, '.sluice'))), ['format', 'lock'])

    def test_ranks_of_a_second_writer_are_refused_together_with_one_message(self):
        save = os.path.join(self.folder.name, 'taken')
        first = Ranks(2, self.flags('--steps', '1000000', '--save-every', '100', '--stages', '2', '--save', save))
        try:
            first.await_line('checkpoint')
            flags = self.flags('--steps', '3', '--stages', '2', '--save', save, '--resume', save)
            ended = Ranks(2, flags).finish()
            self.assertEqual([(code, out) for code, out, _ in ended], [(2, '')] * 2, ended)
            told = [[err for _, _, err in ended if err]]
            if MPIRUN is not None:
                code, out, err = mpi(2, flags)
                self.assertEqual((code, out), (2, ''), err)
                told.append([line for line in err.splitlines() if line.startswith('sluice: ')])
            for messages in told:
                self.assertEqual(len(messages), 1, messages)
                self.assertIn(f'process {first.processes[0].pid} on host ', messages[0])
        finally:
            first.processes[0].send_signal(signal.SIGTERM)
            ended = first.finish()
        self.assertEqual(ended[0][0], 130, ended)

    def test_ranks_that_were_not_started_alike_say_in_what(self):
        for own, named in [({'--seed': '2'}, 'the seed'), ({'--lr': '0.5'}, 'the optimizer'),
                           ({'--steps': '9'}, 'steps'), ({'--recompute': 'full'}, 'the partition'),
                           ({'--data': self.other_data}, 'the data'),
                           ({'--audit': '5'}, '--audit (rank 2: 5; rank 0: 0)'),
                           # Flags without a value, two at a time.
                           ({'--mirror': '--no-pin'}, '--mirror (rank 2: given; rank 0: not given)')]:
            ended = Ranks(3, self.flags('--steps', '3', '--stages', '3'), own={2: own}).finish()
            self.assertEqual([code for code, _, _ in ended], [2, 2, 2], ended)
            self.assertIn(named, ended[0][2])
            self.assertIn('rank 2', ended[0][2])
            # Each machine may have a log of its own.
            self.assertEqual([err for _, _, err in ended[1:]], [ended[0][2]] * 2, 'the same words')

    def test_ranks_with_other_instructions_are_refused(self):
        """Their bits would depend on which rank computes what."""
        flags = self.flags('--steps', '1', '--stages', '2')
        lowest = {'DNNL_MAX_CPU_ISA': 'SSE41'}
        ended = Ranks(2, flags, lambda *where: {**torchrun(*where), **(lowest if where[0] else {})}).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2], ended)
        said = ''.join(err for _, _, err in ended)
        self.assertRegex(said, r'what computes \(rank 1: oneDNN with SSE4.1, vectors with .*; rank 0: oneDNN with ')
        self.assertIn('DNNL_MAX_CPU_ISA', said)
        self.assertEqual(said.count('sluice: '), 2, said)
        ended = Ranks(2, flags, lambda *where: {**torchrun(*where), **lowest}).finish()
        self.assertEqual([code for code, _, _ in ended], [0, 0], ended)

    def test_a_resumed_run_takes_the_checkpoints_numbers_and_says_once_what_is_given(self):
        save = os.path.join(self.folder.name, 'recipe')
        shape = self.flags('--steps', '6', '--stages', '2')
        recipe = ['--lr', '4e-3', '--warmup', '3', '--lr-schedule', 'cosine', '--weight-decay', '0.3']
        code, out, err = here([*shape, *recipe, '--save', save, '--save-every', '3'])
        self.assertEqual(code, 0, err)
        whole = bits(out)[1]
        forgotten = [*shape, '--no-save', '--resume', os.path.join(save, 'step-00000003')]
        other = [*forgotten, '--lr', '1e-3']
        line = 'sluice: lr 0.004 in the checkpoint, 0.001 given: going on with 0.001\n'
        # A value that only one rank gives makes no difference if it is the checkpoint's.
        ended = Ranks(2, forgotten, own={1: {'--lr': '4e-3'}}).finish()
        self.assertEqual([code for code, _, _ in ended], [0, 0], ended)
        self.assertEqual(bits(ended[0][1])[1], whole)
        self.assertEqual([err for _, _, err in ended], ['', ''])
        ended = Ranks(2, other).finish()
        self.assertEqual([code for code, _, _ in ended], [0, 0], ended)
        self.assertEqual([err for _, _, err in ended], [line, ''])
        # If it is not the checkpoint's, each rank would train another run.
        ended = Ranks(2, forgotten, own={1: {'--lr': '1e-3'}}).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2], ended)
        self.assertIn('the optimizer and its settings (rank 1)', ended[0][2])
        if MPIRUN is not None:
            code, out, err = mpi(2, forgotten)
            self.assertEqual((code, bits(out)[1]), (0, whole), err)
            code, _, err = mpi(2, other)
            self.assertEqual((code, err.count(line)), (0, 1), err)

    def test_what_is_not_finite_ends_all_ranks_and_is_not_saved(self):
        save = os.path.join(self.folder.name, 'finite')
        shape = self.flags('--stages', '2', '--save', save)
        self.assertEqual(here([*shape, '--steps', '2'])[0], 0)
        before = sorted(os.listdir(save))
        # Its first update makes weights infinite.
        flags = [*shape, '--resume', save, '--steps', '3', '--lr', '3e38', '--weight-decay', '1e3']
        ended = Ranks(2, flags).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2], ended)
        said = ended[0][2].splitlines()[-1]
        self.assertRegex(said, r'after step 3 the values of .* \(rank 0, stage 0\) are not all finite')
        self.assertIn(os.path.join(save, 'step-00000002'), said)
        self.assertEqual(ended[1][2], '', 'one message')
        self.assertEqual(sorted(os.listdir(save)), before)
        if MPIRUN is not None:
            code, _, err = mpi(2, flags)
            self.assertEqual((code, err.count('are not all finite')), (2, 1), err)
            self.assertEqual(sorted(os.listdir(save)), before)

    def test_ranks_with_other_stage_replicas_are_told(self):
        own = {1: {'--stage-replicas': '1,2'}}
        ended = Ranks(3, self.flags('--steps', '3', '--stage-replicas', '2,1'), own=own).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2, 2], ended)
        self.assertIn('replicas', ended[0][2])
        self.assertIn('rank 1', ended[0][2])

    def test_a_rank_that_cannot_start_stops_the_others_at_once(self):
        # A time-out longer than anything is waited for here.
        flags = ['--steps', '3', '--stages', '2', *MODEL, '--json', '--timeout', f'{10 * PATIENCE}s']
        ended = Ranks(2, flags, own={0: {'--data': self.data}, 1: {'--data': '/nowhere/at/all'}}).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2], ended)
        self.assertIn('rank 1', ended[0][2])
        self.assertIn('/nowhere/at/all', ended[0][2])

    def test_what_one_rank_cannot_begin_with_is_said_with_its_rank(self):
        ended = Ranks(2, self.flags('--steps', '3', '--stages', '2'), own={1: {'--init': '/nowhere/at/all'}}).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2], ended)
        self.assertRegex(ended[0][2], '^sluice: rank 1: .*/nowhere/at/all')

    def test_the_lowest_rank_that_lives_says_which_others_are_lost(self):
        # A time-out longer than anything is waited for here: that ranks are lost is seen at once.
        flags = self.flags('--steps', '1000000', '--stages', '4', timeout=10 * PATIENCE)
        for lost in [0, 1], [0, 2], [0, 1, 2], [1, 2]:
            ranks = Ranks(4, flags)
            ranks.await_line('"step"')
            for victim in lost:
                ranks.processes[victim].kill()
            ended = ranks.finish()
            left = [rank for rank in range(4) if rank not in lost]
            self.assertEqual([ended[rank][0] for rank in left], [5] * len(left), ended)
            self.assertRegex(ended[left[0]][2], rf'^sluice: rank \d.*: rank [{"".join(map(str, lost))}] is gone', ended)
            self.assertEqual([ended[rank][2] for rank in left[1:]], [''] * (len(left) - 1), 'one message')

    def test_a_world_of_another_size_is_refused(self):
        ended = Ranks(3, self.flags('--steps', '3', '--stages', '2')).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2, 2], ended)
        self.assertIn('3 processes', ended[0][2])
        self.assertIn('2 ranks', ended[0][2])
        ended = Ranks(2, self.flags('--steps', '3', '--stage-replicas', '2,1')).finish()
        self.assertEqual([code for code, _, _ in ended], [2, 2], ended)
        self.assertIn('3 ranks (of its stages 2 + 1); start 3', ended[0][2])
        if MPIRUN is not None:
            code, _, err = mpi(3, self.flags('--steps', '3', '--stages', '2'))
            self.assertEqual(code, 2)
            self.assertIn('2 ranks', err)

    def test_transport_and_launcher_must_go_together(self):
        for flags, environment, named in [
                (['--transport', 'carrier-pigeon'], {}, 'carrier-pigeon'),
                (['--transport', 'tcp'], {}, '--rank'),
                (['--transport', 'inprocess'], torchrun(0, 2, '1'), '2 processes'),
                (['--transport', 'mpi'], torchrun(0, 2, '1'), 'mpirun'),
                ([], {'RANK': '5', 'WORLD_SIZE': '2', 'MASTER_ADDR': 'localhost', 'MASTER_PORT': '1'}, 'RANK'),
                (['--rank', '1'], {}, '--world-size')]:
            code, _, err = run([OPTIONS.binary, 'train', *self.flags('--steps', '1', *flags)],
                               {**os.environ, **environment})
            self.assertEqual(code, 2, err)
            self.assertIn(named, err)
        if MPIRUN is not None:
            code, _, err = mpi(2, self.flags('--steps', '1', '--secret-file', 'any'))
            self.assertEqual(code, 2, err)
            self.assertIn('those of this run meet over MPI', err)

    def test_the_trace_of_rank_0_has_the_actions_of_all(self):
        trace = os.path.join(self.folder.name, 'trace.json')
        ended = Ranks(3, self.flags('--steps', '2', '--stages', '3'), own={0: {'--trace': trace}, 1: {'--trace': '/dev/null'},
                                                                           2: {'--trace': '/dev/null'}}).finish()
        self.assertEqual([code for code, _, _ in ended], [0, 0, 0], ended)
        with open(trace, encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
        self.assertEqual({event['args']['rank'] for event in events if event['ph'] == 'X'}, {0, 1, 2})
        # On one machine all clocks are one: no message comes before it is sent, and each arrow has two ends.
        sent, received = ({event['id']: event['ts'] for event in events if event['ph'] == end} for end in 'sf')
        self.assertEqual(sent.keys(), received.keys())
        self.assertGreater(len(sent), 0)
        self.assertTrue(all(received[arrow] >= time for arrow, time in sent.items()))

    def slow_stage_named(self):
        """What a run says of its second stage once that is slow; None if other work on this machine hid it."""
        ranks = Ranks(2, self.flags('--steps', '100000', '--stages', '2'))
        hiccups, begin, slowed, seconds = None, None, 0, 0
        try:
            for line in map(json.loads, ranks.processes[0].stdout):
                took = line.get('step_seconds', 0)
                seconds += took
                # Five blocks of one second are the history, and the next five are compared with it.
                if begin is None and seconds > 12:
                    begin = line['step']
                    hiccups = threading.Thread(target=stop_and_go, args=(ranks.processes[1],))
                    hiccups.start()
                elif begin is not None:
                    slowed += took
                # On a busy machine a stage may become slow before that.
                if begin is not None and line.get('slow_stage') == 1 and line['slow_at_step'] > begin:
                    return line
                if slowed > 25:
                    return None
        finally:
            for process in ranks.processes:
                process.kill()
            if hiccups is not None:
                hiccups.join()
            ranks.finish()
        return None

    def test_a_stage_that_becomes_slow_is_named(self):
        # If all stages become slow at once, none is named, and the times of then become the usual ones.
        for _ in range(4):
            line = self.slow_stage_named()
            if line is not None:
                break
        self.assertIsNotNone(line, 'named in none of four runs')
        self.assertGreaterEqual(line['factor'], 2)

    def test_two_processes_of_one_rank_are_named(self):
        flags = self.flags('--steps', '1', '--stages', '3')
        ended = Ranks(3, flags, lambda rank, world, port: torchrun(min(rank, 1), world, port)).finish()
        self.assertIn(ended[0][0], (2, 5), ended)
        self.assertIn('rank 1', ended[0][2])


def main():
    global OPTIONS  # what every case asks
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('binary')
    parser.add_argument('--every', type=int, default=1)
    parser.add_argument('--kills', type=int, default=10)
    parser.add_argument('--timeout', type=int, default=10, help="of the runs that are killed, seconds")
    parser.add_argument('--paused-steps', type=int, default=800, help='steps of the runs that are paused twice; these should take about a second')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--hanging-calls', type=pathlib.Path)
    OPTIONS, rest = parser.parse_known_args()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the ranks would ignore it, as they should
    googletest_cases.main('train_processes_test', rest)


if __name__ == '__main__':
    main()
