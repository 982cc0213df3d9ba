"""The commands of `sluice train` and `sluice sample`, with small models, so that a training takes some hundredths of a second."""
import itertools

from .case import after_environment, ask
from .inputs import TINY
from .schedule import NAMES

# The flags that a run has unless its line says otherwise.
SHAPE = {'--data': 'in/text', '--layers': '4', '--dim': '16', '--heads': '2', '--seq': '16', '--stages': '2',
         '--micro-batch-size': '2', '--micro-batches': '4', '--eval-micro-batches': '1', '--steps': '2'}
SYNCHRONOUS = ['gpipe', '1f1b', 'eager-1f1b', 'interleaved', 'interleaved-zb', 'bfs', 'zb-h1', 'zb-h2', 'zb-2p', 'zbv',
               'v-half', 'v-min', 'dualpipev', 'hanayo', 'auto']
SHAPES = ['', '--stages 1', '--stages 3 --micro-batches 6']
KINDS = ['--recompute selective', '--recompute full --dtype bf16', '--dtype bf16 --data-parallel 2 --zero 1']
SINGLE = ['--stages 4', '--stages 6', '--stages 2 --partition 0-0,1-5', '--stages 2 --partition 0-4,5-5',
          '--stages 3 --partition 0-1,2-3,4-5', '--schedule interleaved --chunks 3',
          '--schedule zbv --partition 0-0,1-2,3-4,5-5', '--schedule auto --placement v', '--schedule auto --chunks 2',
          '--schedule auto --placement looped', '--schedule chimera', '--schedule chimera --sum-groups 2',
          '--schedule chimera --dtype bf16', '--schedule pipedream --steps 4', '--schedule pipedream-2bw --steps 4',
          '--schedule pipedream --stages 3 --dtype bf16', '--schedule pipedream-2bw --stages 3 --eval-every 2 --steps 4',
          '--schedule pipedream --optimizer sgd', '--schedule in/interleaved.csv',
          '--schedule in/interleaved.csv --micro-batches 4', '--schedule in/sound.csv --micro-batches 2',
          '--schedule in/zbv_comms.csv --placement v', '--schedule shared/schedules/torch_zbv_p4_m8.compute.csv --layers 6',
          '--schedule shared/schedules/torch_dualpipev_p4_m8.compute.csv --layers 6',
          '--schedule shared/schedules/zb1p_2rank_4stage_8mb.compute.csv',
          '--schedule shared/schedules/torch_interleaved1f1b_p4_m8_v2.comms.csv --layers 6',
          '--recompute full --recompute-ahead', '--recompute selective --recompute-ahead --stages 3',
          '--recompute full --schedule zbv --recompute-ahead', '--optimizer sgd', '--optimizer sgd --momentum 0',
          '--optimizer sgd --lr 0.1 --weight-decay 0', '--lr 0.01', '--lr 0', '--weight-decay 0', '--clip 0', '--clip 0.1',
          '--warmup 2 --steps 4', '--lr-schedule cosine --steps 4', '--lr-schedule cosine --warmup 1 --steps 5', '--seed 7',
          '--steps 0', '--steps 1', '--eval-every 1', '--eval-micro-batches 0', '--eval-micro-batches 3', '--data-parallel 2',
          '--data-parallel 3', '--data-parallel 2 --zero 1', '--data-parallel 2 --zero 2',
          '--data-parallel 2 --zero 2 --sum-groups 4', '--data-parallel 2 --sum-groups 8', '--sum-groups 2',
          '--sum-groups 4 --dtype bf16', '--data-parallel 2 --zero 1 --optimizer sgd --schedule zb-h1',
          '--data-parallel 2 --zero 2 --recompute full --dtype bf16', '--zero 1', '--zero 2', '--data-parallel 4 --stages 1',
          '--stage-replicas 2,1', '--stage-replicas 1,2 --schedule zb-h1', '--stage-replicas 2,1 --zero 1',
          '--stage-replicas 2,2 --dtype bf16', '--stage-replicas 3,1 --micro-batches 6 --sum-groups 2',
          '--stage-replicas 1,1,2 --stages 3', '--tied', '--tied --stages 3', '--tied --data-parallel 2', '--norm rms',
          '--norm rms --dtype bf16 --stages 3', '--tied --norm rms --schedule zb-h1', '--layers 1', '--layers 7 --stages 3',
          '--heads 4 --dim 32', '--dim 24 --heads 3', '--vocab 300', '--seq 8', '--seq 33', '--micro-batch-size 1',
          '--micro-batch-size 5 --micro-batches 3', '--micro-batches 1', '--micro-batches 9 --schedule zb-h2',
          '--threads-per-stage 2', '--no-pin', '--timeout 60s', '--transport inprocess', '--device cpu', '--attention sluice',
          '--model char-gpt', '--trace trace.json', '--trace trace.json --data-parallel 2', '--trace trace.json --schedule zbv',
          '--trace out.trace.json --schedule pipedream --steps 3', '--trace trace.json --recompute full --recompute-ahead',
          '--save out', '--save out --save-every 1 --steps 4', '--save out --optimizer sgd',
          '--save out --data-parallel 2 --zero 1', '--save out --dtype bf16 --tied', '--save out --schedule pipedream',
          '--save out --steps 0', '--save a/b/c', '--init in/good/latest/model.safetensors --layers 2',
          '--init in/good/latest --layers 2 --stages 1', '--init in/good --layers 2',
          '--init in/sgd/latest --layers 2 --norm rms']
# The output without --json.
TABLES = ['', '--stages 3 --schedule zbv --micro-batches 6', '--data-parallel 2 --zero 1', '--schedule pipedream',
          '--schedule dualpipev', '--schedule chimera', '--stage-replicas 2,1', '--save out --save-every 1', '--eval-every 1',
          '--steps 0', '--recompute full', '--dtype bf16 --steps 30']
# The inputs were saved after two steps of two micro-batches of two.
RESUMED = ['--steps 4', '--steps 3 --stages 1', '--steps 3 --stages 2 --schedule zb-h1',
           '--steps 3 --data-parallel 2 --micro-batches 1', '--steps 2', '--steps 1', '--steps 4 --save out --save-every 1',
           '--steps 3 --dtype bf16', '--steps 3 --seed 2', '--steps 3 --micro-batches 4', '--steps 3 --micro-batch-size 4',
           '--steps 3 --dim 32', '--steps 3 --norm rms', '--steps 3 --optimizer sgd', '--steps 3 --lr 0.1',
           '--steps 3 --lr-schedule cosine', '--steps 3 --data in/short', '--steps 3 --seq 8',
           '--steps 3 --init in/good/latest', '--steps 3 --tied']
HAND_OVERS = [('', '--stages 3'), ('--stages 3', '--stages 1'), ('--schedule zbv', '--schedule gpipe --stages 3'),
              ('--dtype bf16', '--dtype bf16 --stages 1'),
              ('--optimizer sgd --lr 0.1', '--optimizer sgd --lr 0.1 --schedule zb-h1'),
              ('--tied --norm rms', '--tied --norm rms --stages 1'), ('--data-parallel 2 --micro-batches 2', '--sum-groups 2'),
              ('--data-parallel 2 --micro-batches 2 --zero 1', '--data-parallel 2 --micro-batches 2 --zero 0'),
              ('--stage-replicas 2,1', '--stages 2'), ('--recompute full', '--recompute none'),
              ('--schedule pipedream', '--schedule pipedream'),
              ('--lr-schedule cosine --warmup 1', '--lr-schedule cosine --warmup 1 --stages 1')]
TOGETHER = ['', '--schedule zb-h1 --dtype bf16', '--stages 1 --data-parallel 2 --zero 1',
            '--schedule interleaved --recompute selective', '--schedule zbv --trace trace.json', '--save out --save-every 1',
            '--resume in/good/latest --layers 2 --micro-batches 2 --steps 4', '--schedule pipedream',
            '--stages 1 --data-parallel 2 --zero 2 --save out', '--secret-file in/secret', '--stages 3',
            '--stages 2 --lr 0.1 --lr-schedule cosine --transport tcp', '--transport inprocess', '--init in/none.safetensors']
PICTURES = ['', '--stages 3', '--stages 2 --schedule zb-h1 --optimizer sgd',
            '--stages 2 --dtype bf16 --data-parallel 2 --zero 1', '--stages 1 --recompute full', '--stages 4 --schedule gpipe',
            '--stages 2 --schedule interleaved', '--norm rms', '--layers 3', '--seq 4', '--save out --eval-micro-batches 0',
            '--stages 9']
SAMPLES = ['-n 8', '-n 0', '-n 20 --temperature 0', '-n 8 --seed 3', '-n 8 --top-k 1', '-n 8 --top-k 0 --temperature 2',
           '-n 8 --json', "-n 8 --prompt 'And the '", "-n 40 --prompt 'And the evening'", "-n 8 --prompt 'And' --json",
           '-n 8 --tokens 65,66', '-n 8 --tokens 65,66 --json', '-n 8 --threads 2', '-n 0 --prompt And --logits logits.json',
           '-n 2 --tokens 1,2,3 --logits logits.json', '-n 8 --prompt é', '-n -1', '--temperature -1', '--tokens 1,two',
           '-n 1 --tokens 1,256', '-n 1 --prompt a --tokens 1', '-n 0 --logits logits.json --prompt 0123456789abcdefg',
           '-n 0 --logits none/logits.json', '--top-k -1', '--threads 0', '--unknown', '-n x', '--seed -1',
           '-n 0 --logits logits.json']
LOADED = ['in/good', 'in/good/latest', 'in/sgd', 'in/damaged', 'in/mlp', 'in/none', 'in/text', 'in',
          'in/good/latest/model.safetensors']
# With several ranks, any of them may report weights that do not fit: these commands have one rank.
REFUSED = ['--stages 7', '--stages 0', '--stages x', '--stages -1', '--micro-batches 0', '--micro-batches -3',
           '--micro-batch-size 0', '--micro-batch-size 2000000000', '--schedule 2f2b', '--schedule in/unsound.csv',
           '--schedule in/none.csv', '--schedule in/words.csv', '--schedule in/interleaved.csv --stages 3',
           '--schedule in/interleaved.csv --micro-batches 8', '--schedule in/interleaved.csv --placement v',
           '--schedule in/interleaved.csv --chunks 1', '--schedule 1f1b --placement v', '--schedule 1f1b --chunks 2',
           '--schedule chimera --stages 3', '--schedule zbv --chunks 3', '--chunks 0', '--partition 0-1,3-5',
           '--partition 0-2,2-5', '--partition 0-0,1-2', '--partition 0-0,1-1,2-5', '--partition first,rest',
           '--partition 0-2,3-5 --plan in/tiny_plan.json', '--plan in/none.json', '--plan in/broken.json',
           '--plan in/half_plan.json', '--plan in/gpt2_plan.json', '--plan in/tiny_plan.json', '--plan in/words.json',
           '--timeout 30', '--timeout -5s', '--device abacus', '--device cuda', '--dtype fp8', '--model gtp',
           '--model in/none/config.json', '--model in/gpt2_short.json', '--model in/qwen.json', '--model in/words.json',
           '--heads 3', '--norm batch', '--dim 2000000000 --heads 2', '--dim 60000', '--resume in/nowhere',
           '--resume in/damaged --layers 2', '--resume in/text', '--init in/none.safetensors', '--init in/broken.safetensors',
           '--init in/good/latest --dim 32 --layers 2 --stages 1', '--init in/good/latest --layers 1 --stages 1',
           '--init in/good/latest --layers 3 --stages 1', '--init in/good/latest --layers 2 --norm rms --stages 1',
           '--save in/text', '--save in/text/out', '--trace none/trace.json', '--trace in', '--data in/nothing',
           '--data in/empty', '--data in/short', '--data in/images', '--data in', '--vocab 100', '--transport nccl',
           '--transport pigeon', '--transport tcp', '--transport mpi', '--cuda-graphs', '--attention cudnn', '--attention hawk',
           '--recompute-ahead', '--recompute some', '--optimizer adam', '--lr fast', '--lr -1', '--lr nan', '--clip -1',
           '--momentum 2', '--warmup -1', '--lr-schedule linear', '--seed -1', '--steps -1', '--step 3', '--zero 3',
           '--zero 2 --schedule pipedream', '--data-parallel 0', '--sum-groups 3', '--sum-groups 0', '--stage-replicas 2,x',
           '--stage-replicas 0,1', '--stage-replicas 9999,1', '--stage-replicas 2,1,1 --stages 2', '--stage-replicas 3,1',
           '--stage-replicas 2,1 --data-parallel 2', '--stage-replicas 2,1 --zero 2', '--stage-replicas 2,1 --tied --zero 1',
           '--stage-replicas 2,1 --schedule interleaved', '--stage-replicas 2,1 --schedule pipedream', '--rank 0',
           '--world-size 2', '--rank 2 --world-size 2 --master-addr 127.0.0.1', '--rank 0 --world-size 0',
           '--master-port 70000', '--rank 0 --world-size 2 --secret-file in/none', '--threads-per-stage 0', '--eval-every -1',
           '--save-every -1', '--steps 50 --lr 1e30 --clip 0', '--steps 50 --lr 1e30 --clip 0 --dtype bf16 --json',
           '--steps 50 --lr 1e35 --optimizer sgd', '--seq 0', '--seq 5000']


def filled(flags, shape=None):
    """`train` with `flags`, and with the flags of the shape that they do not contain."""
    shape = SHAPE if shape is None else shape
    words = flags.split()
    # A flag is left out if a file or --stage-replicas decides its value.
    decided = {'--stages', '--micro-batches'} if '.csv' in flags else {'--stages'} if '--stage-replicas' in words else set()
    rest = [f'{flag} {value}' for flag, value in shape.items() if flag not in words and flag not in decided]
    pin = [] if '--no-pin' in words else ['--no-pin']
    return ' '.join(['train', *rest, *words, *pin])


def trained():
    for schedule, shape in itertools.product(SYNCHRONOUS, SHAPES):
        yield f'--schedule {schedule} {shape}'
    for schedule, kind in itertools.product(SYNCHRONOUS, KINDS):
        yield f'--schedule {schedule} {kind}'
    yield from SINGLE


def resumed():
    short = SHAPE | {'--layers': '2', '--micro-batches': '2'}
    for flags in RESUMED:
        yield ask(filled(f'--resume in/good/latest {flags} --json', short))
    yield ask(filled('--resume in/sgd/latest --norm rms --optimizer sgd --steps 4 --json', short))
    yield ask(filled('--resume in/good/latest --steps 3', short))
    for first, then in HAND_OVERS:
        yield ask(filled(f'{first} --save out --json'), filled(f'{then} --resume out --save out --steps 4 --json'))
    yield ask(filled('--save out'), 'sample --load out -n 8 --temperature 0',
              'sample --load out -n 0 --prompt And --logits logits.json')
    yield ask(filled('--save out'), filled('--save out'))
    yield ask(filled('--steps 4 --lr-schedule cosine --save out --save-every 2 --json'),
              filled('--steps 4 --lr-schedule cosine --resume out/step-00000002 --json'))


def of_pictures():
    shape = {'--model': 'mlp', '--data': 'in/pixels', '--micro-batch-size': '2', '--micro-batches': '2',
             '--eval-micro-batches': '1', '--steps': '2'}
    yield from (ask(filled(f'{flags} --json', shape)) for flags in PICTURES)
    yield from (ask(filled(f'--data in/{data}', shape)) for data in ['images', 'cut_pixels', 'text', 'none'])
    yield ask(filled('--data /usr/share/datasets/none', shape))


def refused():
    yield from (ask(filled(flags)) for flags in REFUSED)
    yield from (ask(line) for line in ['train', 'train --data', 'train --data in/text more', 'sample', 'sample --load',
                                       'sample --load in/good more'])
    yield ask('train --data in/text --model in/gpt2.json --stages 2 --steps 1 --eval-micro-batches 1 --no-pin --json')
    yield ask(f'train --data in/text {TINY} --model in/gpt2.json --steps 1')


def cases():
    found = [ask(filled(f'{flags} --json')) for flags in trained()] + [ask(filled(flags)) for flags in TABLES]
    found += [*resumed(), *of_pictures()]
    found += [ask(filled(f'{flags} --json'), ranks=2) for flags in TOGETHER]
    found += [ask(f'sample --load in/good {flags}') for flags in SAMPLES]
    found += [ask(f'sample --load {folder} -n 4') for folder in LOADED]
    return found + [*refused()]
