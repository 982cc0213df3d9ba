#!/usr/bin/env python3
"""The program where memory or threads run out: exit code 6 and one message, or an answer, but never a signal and never a hang.

  tests/tools/out_of_memory_test.py BINARY [unittest's own arguments]

Memory is limited as `ulimit -v` does it, so AddressSanitizer's builds, whose address space is never small, cannot run this.
"""
import functools
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))
sys.dont_write_bytecode = True

from gpu_check.training import free_port  # noqa: E402

BINARY = None
KIB = 1 << 10
PATIENCE = 60  # seconds within which every command ends, even on a slow machine
NOBODY = 54321  # a user with no processes, to whom no other one's count
DONE, PEER_LOST, OUT_OF_MEMORY = 0, 5, 6
SHAPE = '--layers 2 --dim 32 --heads 2 --seq 16 --dtype fp32 --micro-batch-size 2'


def limited(kib=None, threads=None, group=None):
    """What to do in a child before the program starts."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if group is not None:
            group.enter()
        if kib is not None:
            resource.setrlimit(resource.RLIMIT_AS, (kib * KIB, kib * KIB))
        if threads is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    return limit


def start(arguments, **limits):
    return subprocess.Popen([BINARY, *arguments.split()], preexec_fn=limited(**limits), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, 'OMP_NUM_THREADS': '1'})


def finish(process):
    """(exit code, stderr); a program that does not end is killed, and its exit code is that of the signal."""
    try:
        _, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        err += 'did not end in time'
    return process.returncode, err


@functools.cache
def loadable():
    """KiB of address space in which the program and its libraries can just be loaded: below that the loader ends it."""
    low, high = 0, 4 << 20
    while high - low > 256:
        middle = (low + high) // 2
        loads = finish(start('--help', kib=middle))[0] == DONE
        low, high = (low, middle) if loads else (middle, high)
    return high


def ladder(steps):
    """Limits from just loadable to enough for everything below, the first ones close together."""
    most = 1 << 20
    return [loadable() + int(most ** ((i + 1) / steps)) for i in range(steps)]


class MemoryGroup:
    """A control group, as containers and batch jobs have one, whose processes may use `mib` MiB. PermissionError where there
    can be none."""
    def __init__(self, mib):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='sluice-', dir=self.above()))
        try:
            limit = self.folder / 'memory.max'
            if not limit.exists():  # version 1
                limit = self.folder / 'memory.limit_in_bytes'
            limit.write_text(str(mib << 20))
        except OSError as error:
            self.folder.rmdir()
            raise PermissionError('no memory is counted there') from error

    @classmethod
    def above(cls):
        for line in pathlib.Path('/proc/self/mountinfo').read_text().splitlines():
            place, kind = line.split()[4], line.split(' - ')[1].split()
            if kind[0] == 'cgroup2' or (kind[0] == 'cgroup' and 'memory' in kind[2].split(',')):
                if list(pathlib.Path(place).glob('memory.*_in_bytes')) or list(pathlib.Path(place).glob('*/memory.max')):
                    return place
        raise PermissionError('there are no control groups of memory')

    def enter(self):
        (self.folder / 'cgroup.procs').write_text(str(os.getpid()))

    def close(self):
        self.folder.rmdir()


class OutOfMemory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chmod(cls.folder.name, 0o755)
        cls.data = os.path.join(cls.folder.name, 'text')
        pathlib.Path(cls.data).write_text(''.join(random.Random(1).choices('abcdefgh \n', k=40000)), encoding='ascii')
        cls.saved = os.path.join(cls.folder.name, 'saved')
        cls.train = f'train --data {cls.data} {SHAPE} --steps 1 --eval-micro-batches 1'
        code, err = finish(start(f'{cls.train} --micro-batches 2 --save {cls.saved}'))
        assert code == DONE, err

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, code, err, codes=(DONE, OUT_OF_MEMORY)):
        """One line says what has failed."""
        self.assertIn(code, codes, err)
        if code == DONE:
            return
        self.assertEqual([line.startswith('sluice: ') for line in err.splitlines()], [True], err)

    def climb(self, arguments, steps=20):
        """With each limit of a ladder; the last is enough, the first is not."""
        codes = []
        for kib in ladder(steps):
            with self.subTest(arguments=arguments, kib=kib):
                code, err = finish(start(arguments, kib=kib))
                codes.append(code)
                self.check(code, err)
        self.assertEqual((codes[0], codes[-1]), (OUT_OF_MEMORY, DONE))

    def test_plan(self):
        self.climb('plan char-gpt --devices 2 --device cpu --dtype fp32 --micro-batches 4 --layers 4')

    def test_profile(self):
        self.climb(f'profile char-gpt {SHAPE} --repetitions 1')

    def test_schedule(self):
        self.climb('schedule show auto -p 4 -m 64 --json --actions -o /dev/null')

    def test_sample(self):
        self.climb(f'sample --load {self.saved} --prompt abc -n 4 --stages 2')

    def test_score(self):
        self.climb(f'score --load {self.saved} --data {self.data} --stages 2', steps=10)

    def test_ranks_that_are_threads(self):
        self.climb(f'{self.train} --stages 2 --micro-batches 500')

    def test_a_run_that_saves(self):
        saved = os.path.join(self.folder.name, 'limited')
        self.climb(f'{self.train} --stages 2 --micro-batches 2 --save {saved} --overwrite', steps=10)

    def test_what_is_wanted_is_said(self):
        # A timetable and messages of this many micro-batches: some are large, and their size is named.
        arguments = f'{self.train} --stages 2 --micro-batches 20000'
        code, err = finish(start(arguments, kib=loadable() + (48 << 10)))
        self.check(code, err, codes=(OUT_OF_MEMORY,))
        self.assertRegex(err, r"out of memory while running 'sluice train' \(\d+\.\d\d MiB more were wanted\)")

    def test_ranks_that_are_processes(self):
        """Whichever has too little memory, the other one hears of it."""
        for short in (0, 1):
            for kib in [loadable() + (mib << 10) for mib in (1, 48, 64, 80, 1024)]:
                with self.subTest(short=short, kib=kib):
                    port = free_port()
                    ranks = [start(f'{self.train} --stages 2 --micro-batches 500 --rank {rank} --world-size 2 '
                                   f'--master-addr 127.0.0.1 --master-port {port} --timeout 4s',
                                   kib=kib if rank == short else None) for rank in (0, 1)]
                    ended = [finish(rank) for rank in ranks]
                    said = ''.join(err for _, err in ended)
                    self.assertIn(ended[short][0], (DONE, OUT_OF_MEMORY), said)
                    failed = ended[short][0] != DONE
                    self.assertIn(ended[1 - short][0], (OUT_OF_MEMORY, PEER_LOST) if failed else (DONE,), said)
                    self.assertEqual(failed, 'sluice: ' in said, said)

    def test_limit_of_a_container(self):
        """Linux kills a process that uses more than its group may, so the run must not begin."""
        try:
            group = MemoryGroup(mib=400)
        except OSError as error:
            self.skipTest(f'cannot make a control group: {error}')
        self.addCleanup(group.close)
        train = (f'train --data {self.data} --dim 768 --heads 12 --seq 16 --dtype fp32 --micro-batches 1 --steps 1 '
                 '--eval-micro-batches 1')
        said = (r'GiB are needed and the memory limit of this process \(a container\'s or a job\'s\) leaves 0\.\d\d GiB '
                'available')
        for blocks, expected in ((1, DONE), (12, OUT_OF_MEMORY)):
            code, err = finish(start(f'{train} --layers {blocks}', group=group))
            self.check(code, err, codes=(expected,))
            if expected == OUT_OF_MEMORY:
                self.assertRegex(err, rf'1\.\d\d {said}')
        # Each of two processes has room for itself, but not for both.
        port = free_port()
        ranks = [start(f'{train} --layers 6 --stages 2 --rank {rank} --world-size 2 --master-addr 127.0.0.1 '
                       f'--master-port {port} --timeout 20s', group=group) for rank in (0, 1)]
        ended = [finish(rank) for rank in ranks]
        self.assertEqual([code for code, _ in ended], [OUT_OF_MEMORY] * 2, ended)
        self.assertRegex(ended[0][1] + ended[1][1], rf'0\.[67]\d {said}')

    def test_threads(self):
        """Where the system starts no more threads: of ranks, of kernels (OpenMP), of a search (oneTBB)."""
        if os.geteuid() != 0:
            self.skipTest('only root can become a user whose threads can be counted')
        global BINARY
        original = BINARY
        with tempfile.TemporaryDirectory() as folder:  # the build may be where only its owner can go
            os.chmod(folder, 0o755)
            BINARY = shutil.copy(original, folder)
            try:
                self.run_with_few_threads()
            finally:
                BINARY = original

    def run_with_few_threads(self):
        for arguments in (f'{self.train} --stages 3 --micro-batches 4',
                          f'{self.train} --stages 2 --micro-batches 4 --threads-per-stage 3',
                          f'sample --load {self.saved} --prompt abc -n 4 --stages 3 --threads 2',
                          f'profile char-gpt {SHAPE} --repetitions 1',
                          'schedule show auto -p 4 -m 8 -o /dev/null'):
            codes = []
            for threads in (1, 2, 3, 4, 6, 40):
                with self.subTest(arguments=arguments, threads=threads):
                    code, err = finish(start(arguments, threads=threads))
                    codes.append(code)
                    self.check(code, err)
            self.assertEqual(codes[-1], DONE, arguments)


if __name__ == '__main__':
    BINARY = sys.argv.pop(1)
    unittest.main()
