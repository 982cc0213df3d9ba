#!/usr/bin/env python3
"""The program on emulated GPUs: what it trains, measures and says, by the code that runs on real ones.

  tests/emulated_gpu/program_test.py BINARY [--every N] [--nccl FOLDER] [unittest's own arguments]

--every N takes each N-th of gpu-check's configurations (1: all of them), --nccl names the folder of the emulated NCCL, for
those of several processes.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ('tools', 'tests/faults')]

from gpu_check import bitwise, training  # noqa: E402
from throttle import Throttle, children  # noqa: E402

OPTIONS = None
SMALL = {'--layers': '6', '--dim': '32', '--seq': '8', '--micro-batch-size': '1', '--steps': '2'}
TUNED = ('char-gpt', '--layers', 3, '--dim', 32, '--heads', 2, '--seq', 8, '--micro-batch-size', 1)
TRAINED = ['--model', 'char-gpt', '--layers', 6, '--dim', 32, '--heads', 2, '--seq', 8, '--micro-batch-size', 1,
           '--eval-micro-batches', 1]
PATIENCE = 120  # seconds


def small(flags):
    """`flags` with a model that emulated threads are done with in a second."""
    flags = list(flags)
    for flag, value in SMALL.items():
        flags[flags.index(flag) + 1] = value
    return flags


class Program(unittest.TestCase):
    device = 'cuda'  # this, sluice and text() are what gpu-check's functions ask of a kit

    @property
    def sluice(self):
        return OPTIONS.binary

    def text(self):
        return self.data

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.data = self.folder / 'text'
        self.lost = self.folder / 'lost'  # has the number of a process whose GPUs are lost
        self.data.write_bytes(bytes(32 + (7 * i + i * i // 50) % 90 for i in range(6000)))

    def run_program(self, *arguments, **environment):
        return subprocess.run([OPTIONS.binary, *map(str, arguments)], capture_output=True, text=True, check=False,
                              timeout=PATIENCE, env={**os.environ, 'OMP_NUM_THREADS': '1', **environment})

    def train(self, flags, device='cuda'):
        done = self.run_program('train', '--data', self.data, '--device', device, '--json', *small(flags))
        losses, weights = self.bits_of(done)
        self.assertEqual(len(losses), int(SMALL['--steps']))
        return losses, weights

    def bits_of(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        objects = training.lines(done.stdout)
        return [line['loss_hex'] for line in objects if 'loss_hex' in line], objects[-1]['weights_hash']

    def start_ranks(self, flags, count, of_rank=lambda rank: ()):
        """A process per rank, over NCCL, with flags that are all ranks' and those that are one's own."""
        meet = ['--transport', 'nccl', '--world-size', count, '--master-addr', '127.0.0.1', '--master-port', training.free_port()]
        ranks = []
        for rank in range(count):
            words = [self.sluice, 'train', '--json', '--data', self.data, '--device', 'cuda', *flags, *meet, '--rank', rank,
                     *of_rank(rank)]
            ranks.append(subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                          env={**os.environ, **training.rank_environment(rank), 'OMP_NUM_THREADS': '1'}))
        return ranks

    def test_all_ways_to_cut_a_run_give_its_bits(self):
        wanted = [one for one in bitwise.configurations() if not one.processes and one.attention == 'sluice']
        small_ones = [one for one in wanted if one.model == 'gpt']  # a decoder's layers are in run_test.cc
        references = {}
        for configuration in small_ones[::OPTIONS.every]:
            with self.subTest(configuration.name):
                key = configuration.reference()
                if key not in references:
                    references[key] = self.train(bitwise.reference_flags(*key))
                self.assertEqual(self.train(configuration.flags()), references[key])

    def test_a_process_a_gpu_gives_the_bits_of_one(self):
        if not OPTIONS.nccl:
            self.skipTest('there is no emulated NCCL')
        references = {}
        wanted = [one for one in bitwise.configurations() if one.processes and one.attention == 'sluice']
        for configuration in wanted[::OPTIONS.every]:
            with self.subTest(configuration.name):
                key = configuration.reference()
                if key not in references:
                    references[key] = self.train(bitwise.reference_flags(*key))
                result = training.many_processes(self, small(configuration.flags()), configuration.ranks, PATIENCE)
                self.assertEqual((result['losses'], result['hash']), references[key])

    def test_memory_is_what_a_plan_made_elsewhere_said(self):
        """`plan --device h200` asks for no GPU and knows the bytes of each rank's arena on one."""
        gpt = ['char-gpt', '--layers', 4, '--dim', 32, '--heads', 2, '--seq', 16]
        qwen = self.folder / 'qwen'
        qwen.mkdir()
        (qwen / 'config.json').write_text(json.dumps({
            'model_type': 'qwen3', 'vocab_size': 259, 'hidden_size': 24, 'intermediate_size': 40, 'num_hidden_layers': 3,
            'num_attention_heads': 3, 'num_key_value_heads': 1, 'head_dim': 16, 'max_position_embeddings': 32}))
        lines = self.folder / 'lines.jsonl'
        lines.write_text(''.join(json.dumps({'text': word}) + '\n' for word in ('ab', 'bab', 'aabb', 'b')))
        tokenizer = self.folder / 'tokenizer.json'
        tokenizer.write_text('{"model": {"vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}}')
        for model, plan_flags in (
                (gpt, ['--schedule', '1f1b']),
                ([*gpt, '--dtype', 'fp32'], ['--schedule', 'zb-h1']),
                ([*gpt, '--tied', '--vocab', 257, '--norm', 'rms'], ['--recompute', 'full', '--schedule', 'gpipe']),
                ([*gpt, '--head-rows', 16], ['--recompute', 'selective']),
                ([*gpt, '--lora', 'r=4'], ['--schedule', 'interleaved']),
                ([*gpt, '--freeze', '*.0.*,*wte*,*wpe*'], ['--optimizer', 'sgd']),
                ([*gpt, '--pack', '--vocab', 3], ['--mirror']),
                ([qwen, '--seq', 16], ['--schedule', 'zb-2p', '--recompute', 'selective']),
                ([qwen, '--seq', 24, '--dtype', 'fp32', '--head-rows', 20], ['--audit', 1]),
                ([*gpt, '--tied'], ['--data-parallel', 2]),
                ([*gpt, '--dtype', 'fp32'], ['--data-parallel', 2, '--zero', 1, '--schedule', 'zb-h1']),
                ([*gpt, '--lora', 'r=4'], ['--data-parallel', 2, '--zero', 1]),
                ([qwen, '--seq', 16], ['--data-parallel', 2, '--zero', 2, '--recompute', 'full'])):
            with self.subTest(f'{model} {plan_flags}'):
                plan = self.folder / 'plan.json'
                replicas = 2 if '--data-parallel' in plan_flags else 1
                done = self.run_program('plan', *model, *plan_flags, '--device', 'h200', '--devices', 2 * replicas,
                                        '--micro-batch-size', 2, '--micro-batches', 4, '--format', 'json', '-o', plan)
                self.assertEqual(done.returncode, 0, done.stderr)
                said = {stage['rank']: stage['peak_bytes'] for stage in json.loads(plan.read_text())['stages']}
                data = [lines, '--tokenizer', tokenizer] if '--pack' in model else [self.data, '--bytes']
                optimizer = ['--optimizer', 'sgd'] if 'sgd' in plan_flags else []
                done = self.run_program('train', '--device', 'cuda', '--json', '--steps', 1, '--validation', 0, '--data', *data,
                                        *optimizer, '--plan', plan)
                self.assertEqual(done.returncode, 0, done.stderr)
                arenas = training.lines(done.stdout)[0]['arena_bytes']
                # Slices of optimizer state may differ by some bytes: the plan has those of the replica with the most.
                self.assertEqual([max(arenas[stage::2]) for stage in (0, 1)], [said[rank] for rank in sorted(said)])
                if '--zero' not in plan_flags:
                    self.assertEqual(arenas, arenas[:2] * replicas)

    def test_a_plan_brings_whose_attention_it_is_for(self):
        plan = self.folder / 'plan.json'
        done = self.run_program('plan', 'char-gpt', '--layers', 2, '--vocab', 3, '--seq', 16, '--device', 'h200', '--devices', 2,
                                '--attention', 'cudnn', '--format', 'json', '-o', plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(plan.read_text())['attention'], 'cudnn')
        lines = self.folder / 'lines.jsonl'
        lines.write_text('{"text": "ab"}\n{"text": "bab"}\n')
        tokenizer = self.folder / 'tokenizer.json'
        tokenizer.write_text('{"model": {"vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}}')
        train = ['train', '--device', 'cuda', '--steps', 1, '--plan', plan, '--validation', 0, '--tokenizer', tokenizer, '--data']
        done = self.run_program(*train, lines)  # cuDNN is not emulated, but asked about what it would be given
        self.assertEqual(done.returncode, 2)
        self.assertIn(f'--attention cudnn: {lines} holds', done.stderr)
        done = self.run_program(*train, self.data, '--attention', 'sluice')
        self.assertEqual(done.returncode, 2)
        self.assertIn("--attention sluice: the plan is for cudnn's attention", done.stderr)

    def test_gpus_audit_each_other(self):
        """In one process and, over NCCL, in three: nothing is found, the bits are the same, and so is the memory of the plan."""
        flags = small(bitwise.Configuration('1f1b', 3).flags())
        alone = self.train(bitwise.Configuration('1f1b', 3).flags())
        done = self.run_program('train', '--data', self.data, '--device', 'cuda', '--json', *flags, '--audit', 1)
        self.assertEqual(self.bits_of(done), alone)
        end = training.lines(done.stdout)[-1]
        self.assertEqual((end['audits']['audits'], end['audits']['micro_batches']), (2, 6))
        steps = [line for line in training.lines(done.stdout) if 'loss_hex' in line]
        self.assertEqual(steps[0]['arena_bytes'], steps[0]['peak_bytes'])
        if OPTIONS.nccl:
            result = training.many_processes(self, [*flags, '--audit', 1], 3, PATIENCE)
            self.assertEqual((result['losses'], result['hash']), alone)

    def test_a_gpu_that_computes_wrong_is_named(self):
        flags = small(bitwise.Configuration('1f1b', 3).flags())
        for what in ('forward', 'input', 'gradient', 'memory'):
            with self.subTest(what):
                done = self.run_program('train', '--data', self.data, '--device', 'cuda', *flags, '--audit', 1,
                                        SLUICE_FAILPOINT=f'rank1-{what}.flip:1:vanish')
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertRegex(done.stderr, 'audit of step 1: the (hardware of rank 1 computes wrong|memory of rank 1)')

    def test_a_rank_that_is_killed_ends_the_others(self):
        if not OPTIONS.nccl:
            self.skipTest('there is no emulated NCCL')
        flags = small(bitwise.Configuration('1f1b', 3).flags())
        flags[flags.index('--steps') + 1] = '1000'
        ranks = self.start_ranks(flags, 3)
        try:
            for line in ranks[0].stdout:
                if '"step":2,' in line:
                    break
            ranks[1].kill()
            said = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [5, -signal.SIGKILL, 5], said)
            self.assertEqual(len(said[0].splitlines()) + len(said[2].splitlines()), 1, said)
            self.assertIn('rank 1', said[0] + said[2])
        finally:
            for rank in ranks:
                rank.kill()
                rank.stdout.close()
                rank.stderr.close()

    def launched(self, launch, flags, happens, processes=2):
        """A run under `sluice launch`, to which `happens`(the pids of its ranks, its own) comes after step 4. Its losses and weights must
        be those of a run that nothing happens to. Returns its events."""
        if not OPTIONS.nccl:
            self.skipTest('there is no emulated NCCL')
        common = ['train', '--json', '--data', self.data, '--device', 'cuda', *flags, '--steps', 9, '--sum-groups', 4]
        quiet = self.bits_of(self.run_program(*common, '--stages', 1, '--micro-batches', 4))
        words = [self.sluice, 'launch', '--processes', processes, '--no-replan', *launch, '--', *common, '--stages', 'auto', '--data-parallel', 'auto',
                 '--micro-batches', 4, '--mirror']
        events, losses, last = [], {}, {}
        with subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, 'OMP_NUM_THREADS': '1', 'EMULATED_GPU_LOST_FILE': str(self.lost)}) as run:
            try:
                for last in map(json.loads, run.stdout):
                    if 'event' in last:
                        events.append(last)
                    if 'loss_hex' in last:
                        self.assertEqual(losses.setdefault(last['step'], last['loss_hex']), last['loss_hex'])
                        if last['step'] == 4 and happens is not None:
                            happens(children(run.pid), run.pid)
                            happens = None
                said = run.stderr.read()
                self.assertEqual(run.wait(PATIENCE), 0, said)
            finally:
                run.kill()
        self.assertEqual(([losses[step] for step in sorted(losses)], last['weights_hash']), quiet)
        return events

    def test_a_rank_that_is_killed_is_replaced(self):
        for dtype in ('fp32', 'bf16'):
            with self.subTest(dtype):
                events = self.launched(['--max-restarts', 1], TRAINED + ['--dtype', dtype],
                                       lambda ranks, _: os.kill(ranks[1], signal.SIGKILL))
                self.assertEqual([event['event'] for event in events], ['lost', 'joined', 'continued'])
                self.assertEqual((events[-1]['ranks'], events[-1]['from']), (2, 'memory'))

    def test_who_is_left_goes_on_with_all_layers(self):
        events = self.launched(['--min-ranks', 1, '--max-restarts', 0], TRAINED, lambda ranks, _: os.kill(ranks[0], signal.SIGKILL))
        self.assertEqual([event['event'] for event in events], ['lost', 'replanned', 'continued'])
        self.assertEqual((events[2]['ranks'], events[2]['from']), (1, 'memory'))

    def test_a_rank_whose_gpu_is_lost_is_replaced(self):
        events = self.launched(['--max-restarts', 1], TRAINED, lambda ranks, _: self.lost.write_text(str(ranks[1])))
        self.assertEqual([event['event'] for event in events], ['lost', 'joined', 'continued'])
        self.assertEqual((events[0]['exit_code'], events[-1]['from']), (5, 'memory'))

    def test_gpus_that_are_lost_again_and_again_end_the_run(self):
        if not OPTIONS.nccl:
            self.skipTest('there is no emulated NCCL')
        for looks in (0, 4):
            done = self.run_program('launch', '--processes', 2, '--max-restarts', 1, '--', 'train', '--data', self.data, '--device', 'cuda',
                                    *TRAINED, '--stages', 2, EMULATED_GPU_LOST_AFTER=str(looks))
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn('cudaErrorECCUncorrectable', done.stderr)

    def test_a_gpu_that_is_lost_while_it_saves_leaves_good_checkpoints(self):
        """What is read of a lost GPU is not what was there, and must not become a checkpoint."""
        def weights(folder):
            return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == '.safetensors'}

        def train(save):
            words = [self.sluice, 'train', '--data', self.data, '--device', 'cuda', *TRAINED, '--steps', 3, '--save', save, '--save-every', 1,
                     '--keep', 9]
            return subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                    env={**os.environ, 'OMP_NUM_THREADS': '1', 'EMULATED_GPU_LOST_FILE': str(self.lost)})

        with train(self.folder / 'good') as run:
            self.assertEqual(run.wait(PATIENCE), 0, run.stderr.read())
        for _ in range(3):
            self.lost.unlink(missing_ok=True)
            save = self.folder / 'save'
            shutil.rmtree(save, ignore_errors=True)
            with train(save) as run:
                while run.poll() is None and not any((save / '.sluice').glob('saving-*')):
                    time.sleep(0.0005)
                self.lost.write_text(str(run.pid))
                said = run.stderr.read()
                self.assertIn(run.wait(PATIENCE), (0, 5), said)  # 0: it was done by then
            for checkpoint in save.glob('step-*'):
                self.assertEqual(weights(checkpoint), weights(self.folder / 'good' / checkpoint.name))

    def test_ranks_come_as_far_as_there_are_gpus(self):
        events = self.launched(['--min-ranks', 1], TRAINED, lambda _, launch: os.kill(launch, signal.SIGUSR1), processes=1)
        self.assertEqual([event['event'] for event in events], ['joined', 'replanned', 'continued'])
        self.assertEqual((events[2]['ranks'], events[2]['from']), (2, 'memory'))
        events = self.launched(['--min-ranks', 2], TRAINED, lambda _, launch: os.kill(launch, signal.SIGUSR1))
        self.assertEqual([event['event'] for event in events], ['lost'])
        self.assertIn('process 3 of this machine needs a GPU of its own, and CUDA shows 2', events[0]['error'])
        command = ['launch', '--processes', 2, '--', 'train', '--data', self.data, '--device', 'cuda', *TRAINED, '--stages', 2]
        for count, wanted in (('0', 'there is no GPU that CUDA can use'), ('1', 'process 2 of this machine needs a GPU of its own')):
            done = self.run_program(*command, EMULATED_GPU_COUNT=count)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn(wanted, done.stderr)

    def test_ranks_divide_the_layers_anew(self):
        if not OPTIONS.nccl:
            self.skipTest('there is no emulated NCCL')
        flags = [*TRAINED, '--sum-groups', 4, '--micro-batches', 4]
        ranks = self.start_ranks([*flags, '--steps', 100000, '--stages', 2, '--replan'], 2)
        losses, why, slow, stop_after, stopped = [], [], None, None, False
        try:
            for found in map(json.loads, ranks[0].stdout):
                if 'loss_hex' in found:
                    losses.append(found['loss_hex'])
                if slow is None and len(losses) == 3:
                    slow = Throttle(ranks[1].pid, 0.003)
                if 'why' in found:
                    why.append(found['why'])
                # On a busy machine there are other reasons, too, and after those there may be nothing to gain.
                if stop_after is None and why and ('rank 1 takes' in why[-1] or len(losses) >= 100):
                    stop_after = len(losses) + 3
                    slow.close()
                # Once only: a new plan has a line of its own behind the same loss, and a second signal ends a rank at once.
                if len(losses) == stop_after and not stopped:
                    stopped = True
                    for rank in ranks:
                        rank.send_signal(signal.SIGTERM)
            said = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [130] * 2, said)
            self.assertIsNotNone(stop_after)
        finally:
            if slow is not None:
                slow.close()
            for rank in ranks:
                rank.kill()
                rank.stdout.close()
                rank.stderr.close()
        quiet = self.run_program('train', '--json', '--data', self.data, '--device', 'cuda', *flags, '--steps', len(losses),
                                 '--stages', 1)
        self.assertEqual(losses, self.bits_of(quiet)[0])

    def test_the_gpu_learns_what_the_cpu_learns(self):
        flags = bitwise.reference_flags('fp32', 1, 'layer', 'sluice')
        gpu, cpu = ([int(loss, 16) for loss in self.train(flags, device)[0]] for device in ('cuda', 'cpu'))
        for mine, theirs in zip(gpu, cpu):
            self.assertLess(abs(mine - theirs), 64, 'units in the last place of fp32')

    def test_a_checkpoint_moves_to_the_cpu(self):
        flags = [*bitwise.reference_flags('fp32', 1, 'layer', 'sluice'), '--save', self.folder / 'saved', '--save-every', '1']
        self.train(flags)
        done = self.run_program('train', '--data', self.data, '--json', '--resume', self.folder / 'saved' / 'step-00000001',
                                *small(flags[:-4]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line['step'] for line in training.lines(done.stdout) if 'loss_hex' in line], [2])

    def test_a_profile_is_measured_planned_and_trained(self):
        profile, plan = self.folder / 'profile.json', self.folder / 'plan.json'
        done = self.run_program('profile', 'char-gpt', '--layers', 4, '--dim', 32, '--heads', 2, '--seq', 8, '--device', 'cuda',
                                '--micro-batch-size', 1, '--repetitions', 1, '-o', profile)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(profile.read_text())['device'], 'cuda')
        for audited in ([], ['--audit', 1]):
            done = self.run_program('plan', profile, '--devices', 2, '--micro-batches', 4, *audited, '--format', 'json', '-o', plan)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.run_program('train', '--plan', plan, '--data', self.data, '--device', 'cuda', '--steps', 1, '--json',
                                    '--eval-micro-batches', 1)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual('audits' in training.lines(done.stdout)[-1], bool(audited))

    def tune(self):
        """The file that a profile writes of the products of the runs below, and what it says."""
        file = self.folder / 'algorithms.json'
        done = self.run_program('profile', *TUNED, '--device', 'cuda', '--repetitions', 1, '--tune', file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('25 products, each once: ', done.stdout)
        return file, json.loads(file.read_text())

    def with_algorithm(self, name, word, document):
        """The document's products all by the algorithm of this first word (tests/emulated_gpu/cublaslt.cc)."""
        for product in document['products']:
            product['algorithm'] = f'{word:016x}' + product['algorithm'][16:]
        file = self.folder / name
        file.write_text(json.dumps(document))
        return file

    def test_measured_algorithms_decide_the_bits_however_a_run_is_cut(self):
        file, document = self.tune()
        self.assertEqual((document['gpu'], document['cublaslt'], len(document['products'])), ('Emulated', 130000, 25))
        self.assertLessEqual({product['algorithm'][:16] for product in document['products']}, {f'{1:016x}', f'{2:016x}'})
        for product in document['products']:
            self.assertGreater(product['seconds'], 0)
            self.assertGreaterEqual(product['first_seconds'], product['seconds'])
        flags = ['--model', *TUNED, '--steps', 2, '--eval-micro-batches', 1, '--micro-batches', 4, '--json', '--data', self.data,
                 '--device', 'cuda']

        def bits(*more):
            return self.bits_of(self.run_program('train', *flags, *more))

        usual = bits('--stages', 1)
        self.assertEqual(bits('--stages', 1, '--algorithms', self.with_algorithm('first', 1, document)), usual)
        backwards = self.with_algorithm('backwards', 2, document)
        one = bits('--stages', 1, '--algorithms', backwards)
        self.assertNotEqual(one, usual)
        self.assertEqual(bits('--stages', 3, '--schedule', 'zb-h1', '--algorithms', backwards), one)
        measured = bits('--stages', 1, '--algorithms', file)
        self.assertEqual(bits('--stages', 2, '--schedule', 'gpipe', '--algorithms', file), measured)

        # A profile by them is a profile as any other.
        done = self.run_program('profile', *TUNED, '--device', 'cuda', '--repetitions', 1, '--algorithms', file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('products, each once', done.stdout)

    def test_algorithms_that_are_not_to_be_used(self):
        _, document = self.tune()
        model = [*TUNED[1:]]
        for word in (3, 99):  # by atomics, and one that there is not
            file = self.with_algorithm(f'of {word}', word, document)
            self.refuse(2, ['does not multiply', 'in one order', 'measure the algorithms again'], [*model, '--algorithms', file])
        file = self.with_algorithm('elsewhere', 1, {**document, 'gpu': 'NVIDIA H200'})
        self.refuse(2, [f'--algorithms {file}: ', 'measured on NVIDIA H200 with cuBLASLt 130000', 'here is Emulated', '--tune'],
                    [*model, '--algorithms', file])
        self.refuse(2, [str(self.data), 'not a JSON object', 'sluice profile --tune'], [*model, '--algorithms', self.data])
        done = self.run_program('profile', *TUNED, '--device', 'cuda', '--tune', file, '--algorithms', file)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        self.assertIn('give one of the two', done.stderr)

    def test_ranks_take_the_same_algorithms(self):
        if not OPTIONS.nccl:
            self.skipTest('there is no emulated NCCL')
        _, document = self.tune()
        files = [self.with_algorithm(f'of rank {rank}', 1 + rank, document) for rank in range(2)]
        flags = ['--model', *TUNED, '--stages', 2, '--steps', 2, '--eval-micro-batches', 1]
        ranks = self.start_ranks(flags, 2, lambda rank: ('--algorithms', files[rank]))
        said = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [2, 2], said)
        self.assertIn("what computes (rank 1: Emulated with the products' algorithms ", ''.join(said))  # one rank says it

    def saved(self, dtype):
        """The folder of a model that GPUs have trained, a text, and the loss that they have found it to have."""
        folder, text = self.folder / f'saved {dtype}', self.folder / 'scored'
        text.write_bytes(self.data.read_bytes()[:170])
        done = self.run_program('train', '--model', *TUNED, '--dtype', dtype, '--steps', 2, '--micro-batches', 4, '--data', self.data,
                                '--validation', text, '--eval-micro-batches', 1000, '--device', 'cuda', '--save', folder, '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder, text, training.lines(done.stdout)[-1]['eval_loss']

    def printed(self, *words):
        done = self.run_program(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return done.stdout

    def test_texts_are_scored_and_continued(self):
        for dtype, tolerance in (('fp32', 1e-5), ('bf16', 2e-3)):  # the run computes whole windows
            folder, text, loss = self.saved(dtype)
            common = ['--load', folder, '--dtype', dtype, '--device', 'cuda']
            scores = {self.printed('score', *common, '--data', text, '--seq', 8, '--json', '--stages', n) for n in (1, 2, 3)}
            self.assertEqual(len(scores), 1, scores)
            self.assertAlmostEqual(json.loads(scores.pop())['loss'], loss, delta=tolerance)
            texts = {self.printed('sample', *common, '--prompt', 'And', '--prompt', 'was so', '-n', 6, '--stages', n)
                     for n in (1, 2, 3)}
            self.assertEqual(len(texts), 1, texts)

    def test_what_keeps_a_text_from_being_continued(self):
        folder, _, _ = self.saved('fp32')
        command = ['sample', '--load', folder, '--prompt', 'And', '-n', 4, '--device', 'cuda']
        for code, word, environment in ((2, 'there is no GPU that CUDA can use', {'EMULATED_GPU_COUNT': '0'}),
                                        (2, 'there is no NVIDIA driver', {'EMULATED_GPU_DRIVER': '0'}),
                                        (6, 'bytes were asked for', {'EMULATED_GPU_TAKEN': str(2**32 - 2**14)}),
                                        (5, 'cudaErrorECCUncorrectable', {'EMULATED_GPU_LOST_AFTER': '4'})):
            done = self.run_program(*command, **environment)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (code, 1), done.stderr)
            self.assertIn(word, done.stderr)
        wrong = self.run_program(*command[:-1], 'tpu')
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('--device tpu: expected cpu or cuda', wrong.stderr)

    def refuse(self, code, words, flags, **environment):
        done = self.run_program('train', '--model', 'char-gpt', '--data', self.data, '--device', 'cuda', '--steps', 3,
                                '--eval-micro-batches', 1, *flags, **environment)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (code, 1), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_no_gpu_and_an_old_driver(self):
        self.refuse(2, ['there is no GPU that CUDA can use'], [], EMULATED_GPU_COUNT='0')
        self.refuse(2, ['driver is too old', 'up to 12.4', 'made with 13.0'], [], EMULATED_GPU_DRIVER='12040')
        self.refuse(2, ['there is no NVIDIA driver'], [], EMULATED_GPU_DRIVER='0')

    def test_two_ranks_on_one_gpu_over_nccl(self):
        if not OPTIONS.nccl:
            self.skipTest('there is no emulated NCCL')
        self.refuse(2, ['ranks 0 and 2 are both on GPU 0', 'NCCL_HOSTID'],
                    ['--layers', 2, '--dim', 32, '--heads', 2, '--seq', 8, '--stages', 3, '--transport', 'nccl'])

    def test_heads_that_are_too_wide(self):
        self.refuse(2, ['heads of 264 values', 'at most 256', 'take more heads'],
                    ['--layers', 2, '--dim', 264, '--heads', 1, '--seq', 8, '--stages', 2])

    def test_what_does_not_fit_is_refused_beforehand(self):
        self.refuse(3, ['cuda:0 Emulated has 4.00 GiB', 'the run needs', 'optimizer state', 'take more devices'],
                    ['--dim', 2048, '--heads', 16, '--layers', 24, '--stages', 2])

    def test_memory_that_is_gone_when_it_is_asked_for(self):
        self.refuse(6, ['bytes were asked for', 'parameters', 'within a step'], ['--stages', 2],
                    EMULATED_GPU_TAKEN=str(2**32 - 2**20))

    def test_a_gpu_that_is_lost(self):
        self.refuse(5, ['cuda:', 'cudaErrorECCUncorrectable'], ['--layers', 2, '--dim', 32, '--heads', 2, '--seq', 8,
                                                               '--stages', 2], EMULATED_GPU_LOST_AFTER='40')


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('binary')
    parser.add_argument('--every', type=int, default=1)
    parser.add_argument('--nccl')
    OPTIONS, rest = parser.parse_known_args()
    if OPTIONS.nccl:
        os.environ['SLUICE_CUDA_LIBRARIES'] = OPTIONS.nccl
    unittest.main(argv=[sys.argv[0], *rest])
