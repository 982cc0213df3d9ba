"""The commands of `sluice plan` and `sluice calibrate`, with sizes whose search ends by itself: if a time limit ended it, the
answer would differ each time."""
import itertools

from .case import after_environment, ask
from .inputs import RUN, TINY, corpus_files
from .schedule import NAMES

GPT2 = 'gpt2 --devices 4 --device h200'
# Plans of a preset on four GPUs, as JSON.
FLAGS = ['--recompute none', '--recompute selective', '--recompute full', '--recompute auto --memory 3GiB', '--memory 2GiB',
         '--memory 3GiB --schedule 1f1b', '--memory 4GB --optimizer sgd', '--micro-batches 4', '--global-batch 32',
         '--micro-batch-size 2 --global-batch 16', '--micro-batch-size auto --global-batch 16', '--seq 512', '--dtype fp32',
         '--dtype bf16', '--chunks 1', '--chunks 2', '--chunks 3 --schedule interleaved', '--objective bottleneck',
         '--objective bottleneck --bandwidth 1GB/s', '--bandwidth 1GB/s', '--latency 1ms', '--optimizer sgd', '--gap 5%',
         '--gap 0.01', '--data-parallel 2', '--data-parallel 4', '--data-parallel auto', '--tensor-parallel 2',
         '--tensor-parallel auto', '--tensor-parallel 2 --sequence-parallel', '--data-parallel 2 --zero 1',
         '--data-parallel 2 --zero 2', '--data-parallel 2 --overlap-sync', '--data-parallel 2 --tensor-parallel 2 --zero 1',
         '--partition 0-3,4-7,8-11,12-13', '--partition 0-3,4-7,8-11,12-13 --schedule zb-h1 --recompute full', '--layers 6',
         '--dim 256 --heads 4', '--vocab 1000', '--tied', '--norm rms', '--layers 4 --dim 128 --heads 2 --vocab 256 --seq 64',
         '--time-limit 60s', '--zero 1', '--overlap-sync', '--sequence-parallel', '--pareto --schedule 1f1b', '--what-if',
         '--pareto --what-if --schedule gpipe']
SHOWN = [f'{GPT2}', f'COLUMNS=120 {GPT2}', f'LC_ALL=C {GPT2}', f'{GPT2} --what-if --schedule 1f1b',
         f'{GPT2} --pareto --schedule 1f1b', f'{GPT2} --format svg', f'{GPT2} --format svg -o out.svg',
         f'{GPT2} --format svg --width 700 --title Step', f'{GPT2} -o plan.json',
         f'{GPT2} -o plan.txt', f'{GPT2} --format megatron', f'{GPT2} --format megatron --schedule zbv',
         f'{GPT2} --format megatron --json', f'{GPT2} --format megatron --partition 0-3,4-7,8-11,12-13',
         f'{GPT2} --format megatron -o out.json', f'{GPT2} --format svg --json', f'{GPT2} --format text -o plan.json',
         f'{GPT2} -o none/plan.json', f'{GPT2} -o in', f'{GPT2} --data-parallel auto --tensor-parallel auto',
         'llama-3.1-8b --devices 4 --device h100 --schedule 1f1b', 'mlp --devices 2 --device h200',
         'gpt2-xl --devices 8 --device a100 --memory 8GiB --schedule 1f1b']
MODELS = ['char-gpt', 'gpt2', 'gpt2-medium', 'gpt2-large', 'mlp', 'llama-3.1-8b', 'llama-3.1-70b', 'mixtral-8x7b',
          'deepseek-v3', 'in/gpt2.json', 'in/qwen.json']
MACHINES = ['--devices 1 --device a100', '--devices 2 --device in/device.json', '--devices 4 --device v100',
            '--devices 8 --device h100', '--devices 16 --cluster in/nodes.json', '--devices 4 --cluster in/mixed.json',
            '--devices 4 --cluster in/own.json']
CONFIGS = ['Qwen--Qwen3-0.6B', 'meta-llama--Meta-Llama-3.1-8B', 'meta-llama--Meta-Llama-3.1-70B',
           'mistralai--Mixtral-8x7B-v0.1']
OF_CONFIGS = ['--devices 8 --device h200', '--devices 8 --device h100 --tensor-parallel 2',
              '--devices 16 --cluster in/nodes.json', '--devices 16 --device h200 --schedule 1f1b --json',
              '--devices 8 --device h200 --tensor-parallel 8 --sequence-parallel']
JOINT = [
    'llama-3.1-8b --devices 8 --device h100 --global-batch 32 --seq 2048 --zero 1 --data-parallel auto --tensor-parallel auto '
    '--micro-batch-size auto --gap 5% --time-limit 100s --json',
    'llama-3.1-8b --devices 8 --device h200 --data-parallel 2 --tensor-parallel 4 --what-if',
    'llama-3.1-70b --devices 16 --cluster in/nodes.json --tensor-parallel 8 --sequence-parallel --zero 1 --data-parallel 1',
    'gpt2 --devices 4 --cluster in/mixed.json --what-if --json', 'gpt2 --devices 3 --cluster in/mixed.json',
    'gpt2 --devices 4 --cluster in/mixed.json --data-parallel 2', 'gpt2 --devices 4 --cluster in/own.json --tensor-parallel 2',
    'gpt2 --devices 8 --device a100 --data-parallel auto --micro-batch-size auto --global-batch 64 --json --gap 2% '
    '--time-limit 100s']
# Plans from the profile of eight layers that is among the inputs.
PROFILED = ['--devices 1', '--devices 2', '--devices 4', '--devices 8', '--devices 9', '--devices 2 --schedule 1f1b --json',
            '--devices 2 --memory 10MB', '--devices 2 --memory 1MB', '--devices 2 --micro-batches 4 --json',
            '--devices 4 --data-parallel 2', '--devices 4 --data-parallel 2 --zero 1 --json',
            '--devices 4 --data-parallel 2 --zero 2 --json', '--devices 4 --data-parallel auto',
            '--devices 2 --tensor-parallel 2', '--devices 2 --micro-batch-size 8', '--devices 2 --micro-batch-size 4',
            '--devices 2 --seq 32', '--devices 2 --dtype bf16', '--devices 2 --device h200', '--devices 2 --layers 4',
            '--devices 2 --recompute full --json', '--devices 2 --partition 0-3,4-7', '--devices 2 --partition 0-4,5-8',
            '--devices 2 --bandwidth 10MB/s --json', '--devices 2 --objective bottleneck --json', '--devices 4 --format svg',
            '--devices 4 --format megatron', '--devices 2 --optimizer sgd --json', '--devices 2 --pareto --json',
            '--devices 2 --what-if', '--devices 2 -o plan.json', '--devices 2 --cluster in/nodes.json']
QUICK_GRAPHS = ['alexnet', 'resnet50', 'vgg16']
OF_GRAPHS = ['--objective bottleneck', '--objective bottleneck --bandwidth 1GB/s',
             '--objective bottleneck --bandwidth 1GB/s --json', '--objective bottleneck --data-parallel auto --bandwidth 1GB/s',
             '--objective bottleneck --memory 2GiB']
STEPS_OF_GRAPHS = ['--bandwidth 1GB/s', '--schedule 1f1b --bandwidth 12GB/s --json', '--data-parallel auto --bandwidth 1GB/s',
                   '--schedule 1f1b --data-parallel auto --bandwidth 1GB/s --json', '--schedule gpipe --format svg',
                   '--micro-batches 4 --latency 1ms --schedule zb-h1', '--memory 4GiB --schedule 1f1b']
SMALL_GRAPHS = ['--devices 2', '--devices 3 --data-parallel auto --json', '--devices 2 --objective bottleneck --json',
                '--devices 9', '--devices 2 --data-parallel 2', '--devices 2 --schedule interleaved --chunks 2',
                '--devices 2 --memory 1B', '--devices 2 --format megatron', '--devices 2 --pareto', '--devices 2 --what-if',
                '--devices 2 --partition 0-1,2-3', '--devices 2 --global-batch 16', '--devices 2 --layers 2',
                '--devices 2 --latency 1ms --objective bottleneck', '--devices 2 --chunks 2 --objective bottleneck',
                '--devices 2 -o plan.json', '--devices 2 -o plan.txt', '--devices 2 --recompute full', '--devices 2 --zero 1',
                '--devices 2 --optimizer sgd', '--devices 2 --device h200', '--devices 2 --tensor-parallel 2',
                '--devices 2 --seq 16', '--devices 2 --dtype bf16', '--devices 2 --cluster in/nodes.json']
REFUSED = ['', 'gpt2', 'gpt2 --devices 0', 'gpt2 --devices -1 --device h200', 'gpt2 --devices x',
           'gpt2 --devices 15 --device h200', 'gpt2 --devices 2000000000 --device h200', 'gpt2 --devices 4 --device tpu',
           'gpt2 --devices 4 --device in/none.json', 'gpt2 --devices 4 --device in/device_words.json',
           'gpt2 --devices 2 --device in/device_short.json', 'gpt7 --devices 4', 'gpt2 --devices 4 --cluster in/none.json',
           'gpt2 --devices 32 --cluster in/nodes.json', 'gpt2 --devices 2 --cluster in/words.json',
           f'{GPT2} --cluster in/nodes.json', 'in/none.json --devices 4', 'in/words.json --devices 4',
           'in/cut.json --devices 2 --device h200', 'in/twice.json --devices 2 --device h200',
           'in/deep.json --devices 2 --device h200', 'in/heads.json --devices 2 --device h200',
           'in/novel.json --devices 2 --device a100', 'in/novel.json --assume llama --devices 2 --device a100',
           'in/novel.json --assume nothing --devices 2 --device a100', 'in/gpt2_short.json --devices 2 --device h200',
           'in/gpt2.json --devices 2 --device h200 --layers 4', 'llama-3.1-8b --devices 4',
           'llama-3.1-8b --devices 4 --device cpu', 'llama-3.1-8b --devices 4 --device h200 --dim 8',
           'llama-3.1-8b --devices 4 --device h200 --seq 1000000', 'llama-3.1-8b --devices 4 --device h200 --tensor-parallel 3',
           'llama-3.1-405b --devices 8 --device h200', 'mlp --devices 2 --device h200 --tensor-parallel 2',
           'mlp --devices 2 --cluster in/nodes.json', f'{GPT2} --micro-batches 0', f'{GPT2} --schedule 1f2b',
           f'{GPT2} --memory 8XB', f'{GPT2} --memory=-1GiB', f'{GPT2} --memory 1MiB', f'{GPT2} --bandwidth 0GB/s',
           f'{GPT2} --bandwidth 12parsecs', f'{GPT2} --latency nan', f'{GPT2} --latency=-1s', f'{GPT2} --partition 0-3,5-13',
           f'{GPT2} --partition 0-6,7-13', f'{GPT2} --partition first', f'{GPT2} --global-batch 63',
           f'{GPT2} --global-batch 64 --micro-batches 4', f'{GPT2} --micro-batch-size auto --global-batch 64 --micro-batches 4',
           f'{GPT2} --micro-batch-size 0', f'{GPT2} --micro-batch-size 9000000000000000000', f'{GPT2} --recompute some',
           f'{GPT2} --objective speed', f'{GPT2} --optimizer adam', f'{GPT2} --dtype fp8', f'{GPT2} --data-parallel 3',
           f'{GPT2} --data-parallel none', f'{GPT2} --tensor-parallel 0', f'{GPT2} --zero 3', f'{GPT2} --zero -1',
           f'{GPT2} --gap few', f'{GPT2} --gap=-1%', f'{GPT2} --time-limit soon', f'{GPT2} --chunks 0',
           f'{GPT2} --chunks 2000000000', f'{GPT2} --seq 0', f'{GPT2} --seq 2000000000', f'{GPT2} --layers 0',
           f'{GPT2} --heads 5', f'{GPT2} --norm batch', f'{GPT2} --format pdf', f'{GPT2} --unknown', f'{GPT2} more',
           f'{GPT2} --micro-batch-size 1 --global-batch 16777216']
GRAPH_FILES = ['none', 'edge', 'cycle', 'edges', 'negative', 'nan', 'nodes', 'arrow', 'chain', 'diamond']
CALIBRATED = ['in/measured.csv', 'in/measured.csv --json', 'in/measured.csv --check in/measured.csv',
              'in/measured.csv --device h100 -o cluster.json', 'in/measured.csv --cluster in/nodes.json -o cluster.json',
              'in/measured.csv --device in/device.json --json', 'in/measured_bad.csv', 'in/none.csv', '', 'in/empty',
              'in/measured.csv --device abacus', 'in/measured.csv --cluster in/nodes.json --device a100',
              'in/measured.csv --cluster in/measured.csv', 'in/measured.csv --check in/none.csv',
              'in/measured.csv -o none/cluster.json', 'shared/tables/vtrain_a100_multinode.csv',
              'shared/tables/korthikanti2022_a100.csv --json',
              'shared/tables/vtrain_a100_multinode.csv --check shared/tables/korthikanti2022_a100.csv --json -o cluster.json']
# A plan, and the commands that read it.
READ_AGAIN = [
    ['plan gpt2 --devices 4 --device in/device.json --schedule 1f1b -o plan.json', 'plan plan.json --devices 4 --device h200'],
    ['calibrate in/measured.csv -o cluster.json', 'plan gpt2 --devices 8 --cluster cluster.json'],
    *([f'plan char-gpt {TINY} --devices {devices} --device h200 --micro-batch-size 2 --micro-batches 4 {flags} -o plan.json',
       f'train --data in/text {TINY} --plan plan.json --steps 2 --eval-micro-batches 1 --no-pin --json']
      for devices, flags in [(2, '--schedule 1f1b'), (2, '--schedule interleaved'), (2, '--recompute full'), (3, ''),
                             (2, '--dtype fp32 --schedule zb-2p'), (2, '--schedule zbv --recompute selective'), (1, '')]),
    ['plan in/profile.json --devices 2 --data-parallel 2 --zero 1 -o plan.json',
     'train --data in/text --plan plan.json --steps 1 --eval-micro-batches 1 --no-pin --json'],
    ['plan in/profile.json --devices 3 --micro-batches 6 -o plan.json',
     'train --data in/text --plan plan.json --steps 2 --eval-micro-batches 1 --no-pin --json'],
    ['plan in/profile_bf16.json --devices 2 -o plan.json', 'train --data in/text --plan plan.json --steps 1'],
    ['plan in/chain.txt --devices 3 --data-parallel auto --schedule 1f1b --micro-batches 6 -o plan.json',
     f'train --data in/text {TINY} --micro-batch-size 2 --plan plan.json --steps 1 --eval-micro-batches 1 --no-pin --json']]


def of_corpus():
    asked = {'cluster': 'plan gpt2 --devices 2 --cluster {}', 'device': 'plan gpt2 --devices 2 --device {}',
             'measured_steps': 'calibrate {}', 'model_config': 'plan {} --devices 2 --device h200 --schedule 1f1b',
             'profile': 'plan {} --devices 2', 'profile_graph': 'plan {} --devices 2 --json',
             'plan': f'train --data in/text --plan {{}} {RUN} --steps 1'}
    for folder, name in corpus_files():
        if folder in asked:
            yield asked[folder].format(f'in/corpus/{folder}/{name}')


def planned():
    yield from (f'{GPT2} --json {flags}' for flags in FLAGS)
    yield from (f'gpt2 --devices 4 --device a100 --micro-batches 8 --schedule {name} --json' for name in NAMES)
    yield from (f'{model} {machine} --schedule 1f1b' for model, machine in itertools.product(MODELS, MACHINES))
    yield from (f'shared/configs/{config}.json {flags}' for config, flags in itertools.product(CONFIGS, OF_CONFIGS))
    yield from (f'in/profile.json {flags}' for flags in PROFILED)
    yield from ['in/profile_bf16.json --devices 2', 'in/profile_bf16.json --devices 3 --dtype bf16 --json']
    yield from (f'in/{graph}.txt --devices 2' for graph in GRAPH_FILES)
    yield from (f'in/diamond.txt {flags}' for flags in SMALL_GRAPHS)
    for graph, devices in itertools.product(QUICK_GRAPHS, [4, 8]):
        yield from (f'shared/profiles/{graph}.txt --devices {devices} {flags}' for flags in OF_GRAPHS + STEPS_OF_GRAPHS)
    for graph in ['densenet121', 'gnmt', 'inception_v3']:
        yield from (f'shared/profiles/{graph}.txt --devices 4 {flags}' for flags in OF_GRAPHS)
    yield from [*SHOWN, *JOINT, *REFUSED]


def cases():
    lines = [after_environment('plan', line) for line in planned()]
    lines += [*(f'calibrate {flags}' for flags in CALIBRATED), *of_corpus()]
    return [ask(line) for line in lines] + [ask(*steps) for steps in READ_AGAIN]
