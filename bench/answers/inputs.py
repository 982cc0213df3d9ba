"""The files that the commands are given: text, pictures, models, machines, timetables, good ones and bad ones."""
import json
import pathlib
import shutil
import struct
import subprocess

CORPUS = pathlib.Path(__file__).resolve().parents[2] / 'tests/fuzz/corpus'
# The name that a file of each folder of the fuzzers' corpus must have for the program to read it.
SUFFIXES = {'cluster': '.json', 'costs_json': '', 'device': '.json', 'measured_steps': '.csv', 'model_config': '.json',
            'plan': '.json', 'profile': '.json', 'profile_graph': '.txt', 'timetable_csv': ''}

TINY = '--layers 2 --dim 16 --heads 2 --seq 16'
RUN = '--micro-batch-size 2 --micro-batches 2 --eval-micro-batches 1 --no-pin'
# Made by the program before the change, so that the program after it must read what the other one wrote.
MADE = [f'train --data in/text {TINY} {RUN} --stages 2 --steps 2 --save in/good',
        f'train --data in/text {TINY} {RUN} --stages 2 --steps 2 --save in/damaged',
        f'train --data in/text {TINY} {RUN} --stages 2 --steps 2 --optimizer sgd --norm rms --save in/sgd',
        'train --data in/pixels --model mlp --micro-batch-size 2 --micro-batches 2 --steps 1 --no-pin --save in/mlp',
        'plan gpt2 --devices 4 --device h200 -o in/gpt2_plan.json',
        f'plan char-gpt {TINY} --devices 2 --device h200 --micro-batch-size 2 --micro-batches 4 --schedule zb-h1 '
        '-o in/tiny_plan.json',
        'schedule show interleaved -p 2 -m 4 --format csv -o in/interleaved.csv',
        'schedule show zbv -p 2 -m 4 --format comms-csv -o in/zbv_comms.csv']


def noise(count):
    return bytes((i * i * 31 >> 3) & 0xFF for i in range(count))


def idx(shape, data):
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f'>{len(shape)}I', *shape) + data


def verses():
    return ''.join(f'{day} And the evening and the morning were day {day}.\n' for day in range(1, 61))


def pictures(folder, count, side):
    folder.mkdir()
    (folder / 'train-images-idx3-ubyte').write_bytes(idx([count, side, side], noise(count * side * side)))
    (folder / 'train-labels-idx1-ubyte').write_bytes(idx([count], bytes(i % 10 for i in range(count))))


def profile(layers, dtype='fp32', **more):
    """A measured profile; every layer takes a little longer than the one before."""
    def layer(number):
        times = {'forward': 1e-3, 'input_grad': 1.1e-3, 'weight_grad': 0.9e-3, 'apart_input_grad': 1.2e-3,
                 'apart_weight_grad': 1e-3, 'restore': 2e-4, 'update': 3e-4}
        entry = {'name': f'layer {number}'}
        for name, seconds in times.items():
            entry[f'{name}_seconds'] = seconds * (1 + number / 10)
            entry[f'{name}_seconds_min'] = seconds
        return entry | {'parameters': 12 * 64 * 64, 'parameter_bytes': 16 * 12 * 64 * 64, 'weight_grad_bytes': 4096,
                        'saved_bytes': {'none': 400000, 'selective': 200000, 'full': 16384}, 'output_bytes': 16384,
                        'workspace_bytes': 65536}
    return {'format': 'sluice profile', 'version': 1, 'model': 'measured', 'device': 'cpu', 'micro_batch_size': 4, 'seq': 16,
            'dtype': dtype, 'repetitions': 7, 'link_latency': 5e-6, 'link_bandwidth': 2e9,
            **more, 'layers': [layer(number) for number in range(layers)]}


def trace():
    """The trace of two steps of 1F1B with four micro-batches on two ranks, each action takes a millisecond."""
    starts = {'0F0': 0, '0F1': 1, '1F0': 1, '1B0': 2, '0B0': 3, '1F1': 3, '0F2': 4, '1B1': 4, '0B1': 5, '1F2': 5, '0F3': 6,
              '1B2': 6, '0B2': 7, '1F3': 7, '1B3': 8, '0B3': 9}
    events = [{'name': 'thread_name', 'ph': 'M', 'pid': 0, 'tid': rank, 'args': {'name': f'rank {rank}'}} for rank in (0, 1)]
    for step in (1, 2):
        for name, start in starts.items():
            stage, micro_batch = int(name[0]), int(name[2])
            events.append({'name': name, 'cat': f'step {step}', 'ph': 'X', 'pid': 0, 'tid': stage,
                           'ts': 1000.0 * start + 12000 * step, 'dur': 990.0, 'cname': 'good',
                           'args': {'step': step, 'stage': stage, 'micro_batch': micro_batch}})
    events.append({'name': 'process_name', 'ph': 'M', 'pid': 0, 'args': {'name': 'sluice 1f1b'}})
    return {'displayTimeUnit': 'ms', 'traceEvents': events}


def links(latency=5e-6):
    return {'inside': {'bandwidth': 3e11, 'latency': latency}, 'between': {'bandwidth': 2.5e10, 'latency': 1e-5}}


DEVICE = {'name': 'small', 'fp32_flops': 1e13, 'bf16_flops': 1e14, 'memory_bandwidth': 1e12, 'memory_bytes': 8000000000,
          'link_bandwidth': 1e10, 'link_latency': 5e-6, 'product_efficiency': 0.8, 'product_half_size': 128,
          'memory_efficiency': 0.8, 'kernel_overhead': 5e-6}
DECODER = {'hidden_size': 256, 'num_hidden_layers': 6, 'num_attention_heads': 8, 'num_key_value_heads': 2,
           'intermediate_size': 512, 'vocab_size': 1000, 'max_position_embeddings': 2048}
GPT = {'type': 'gpt', 'layers': 6, 'dim': 16, 'heads': 2, 'vocab': 256, 'max_seq': 16, 'hidden': 64, 'tied_head': False,
       'norm_epsilon': 1e-5}
DOCUMENTS = {
    'device.json': DEVICE,
    'device_short.json': {key: DEVICE[key] for key in list(DEVICE)[:4]},
    'device_words.json': {'name': 'x', 'fp32_flops': 'fast'},
    'nodes.json': {'name': 'two nodes', 'devices': [{'device': 'a100', 'count': 16}], 'devices_per_node': 8,
                   'cards_per_node': 4, **links()},
    'mixed.json': {'name': 'mixed', 'devices': [{'device': 'h100', 'count': 2}, {'device': 'a100', 'count': 2}],
                   'devices_per_node': 4, **links()},
    'own.json': {'name': 'own', 'devices': [{'device': DEVICE, 'count': 4}], 'devices_per_node': 2, **links(0)},
    'gpt2.json': {'model_type': 'gpt2', 'n_layer': 2, 'n_embd': 16, 'n_head': 2, 'n_positions': 16, 'vocab_size': 256},
    'gpt2_short.json': {'model_type': 'gpt2', 'n_layer': 2, 'n_embd': 16},
    'qwen.json': {'model_type': 'qwen2', **DECODER},
    'novel.json': {'model_type': 'novel', **DECODER},
    'heads.json': {'model_type': 'llama', 'hidden_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': -4},
    'profile.json': profile(8, model_config=GPT),
    'profile_bf16.json': profile(5, 'bf16'),
    'costs4.json': {'F': [1, 2, 1, 1], 'I': [1, 1, 2, 1], 'W': [1, 1, 1, 0.5], 'send': 0.25,
                    'activation_bytes': [4, 4, 4, 2], 'weight_grad_bytes': [1, 1, 1, 1], 'device_memory': [12, 12, 9, 9]},
    'costs4_backward.json': {'F': [1, 1, 1, 2], 'B': [2, 2, 2, 4], 'send': [0.1, 0.2, 0.3], 'overlap': 2.5},
    'costs4_speed.json': {'F': [1, 1, 1, 1], 'I': [1, 1, 1, 1], 'W': [1, 1, 1, 1], 'rank_speed': [1, 2, 1, 1],
                          'send_bytes': 8e6, 'bandwidth': 1e8},
    'costs8.json': {'F': [1, 2] * 4, 'I': [2, 1] * 4, 'W': [1, 1] * 4, 'send': 0.5, 'RECOMPUTE': [1] * 8},
    'trace.json': trace(),
    'half_plan.json': {'model': 'char-gpt', 'devices': 'four'},
}
TEXTS = {
    'text': verses(), 'empty': '', 'short': 'In the beg', 'words.json': '[]', 'broken.json': '{"model":"char-gpt","stages":[{',
    'cut.json': '{\n  "model_type": "llama",\n  "hidden_size": ', 'twice.json': '{"model_type": "llama", "hidden_size": 4, '
    '"hidden_size": 8}', 'deep.json': '{"model_type": ' + '[' * 100000 + ']' * 100000 + '}',
    'unsound.csv': '0F0,0F1\n1F0\n', 'sound.csv': '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n', 'words.csv': 'first,second\n',
    'measured.csv': 'params_b,global_batch,micro_batch,hidden,heads,layers,seq_len,tp,dp,pp,iteration_s\n'
                    'small,64,2,2048,16,24,1024,2,4,2,0.7\nsmall,64,4,2048,16,24,1024,1,8,1,0.6\n'
                    'large,64,1,8192,64,24,1024,8,1,2,9\n',
    'measured_bad.csv': 'params_b,global_batch,micro_batch,hidden,heads,layers,seq_len,tp,dp,pp,iteration_s\n'
                        'small,64,2,many,16,24,1024,2,4,2,0.7\n',
    'secret': 'open sesame\n',
}


def graph(edges, nodes=4, forward='1.5'):
    lines = [f'node{n} -- Linear(4, 4) -- forward_compute_time={forward}, backward_compute_time={n}.0, '
             f'activation_size={n}e6, parameter_size=8e6' for n in range(1, nodes + 1)]
    return '\n'.join(lines + [f'\tnode{a} -- node{b}' for a, b in edges]) + '\n'


GRAPHS = {'chain.txt': graph([(1, 2), (2, 3), (3, 4)]), 'diamond.txt': graph([(1, 2), (1, 3), (2, 4), (3, 4)]),
          'edge.txt': graph([(1, 7)]), 'cycle.txt': graph([(1, 2), (2, 1)]), 'edges.txt': graph([(1, 2), (1, 2)]),
          'negative.txt': graph([], forward='-1'), 'nan.txt': graph([], forward='nan'),
          'nodes.txt': graph([], 1) * 2, 'arrow.txt': graph([]) + '\tnode1 -> node2\n'}


def corpus_files():
    """(folder, name here) of each file of the fuzzers' corpus that a command can be given."""
    return [(folder, path.name + suffix) for folder, suffix in SUFFIXES.items() for path in sorted((CORPUS / folder).glob('*'))]


def write(folder, binary, environment):
    """Fills `folder`, which must not exist, in the folder in which the commands of MADE run."""
    folder.mkdir()
    for name, document in DOCUMENTS.items():
        (folder / name).write_text(json.dumps(document, indent=1) + '\n', encoding='ascii')
    for name, text in (TEXTS | GRAPHS).items():
        (folder / name).write_text(text, encoding='ascii')
    (folder / 'broken.safetensors').write_bytes(b'\x10\0\0\0\0\0\0\0{"a":')
    pictures(folder / 'images', 40, 4)
    pictures(folder / 'pixels', 40, 28)
    pictures(folder / 'cut_pixels', 8, 28)
    cut = folder / 'cut_pixels/train-images-idx3-ubyte'
    cut.write_bytes(cut.read_bytes()[:100])
    for kind, suffix in SUFFIXES.items():
        (folder / 'corpus' / kind).mkdir(parents=True)
        for path in (CORPUS / kind).glob('*'):
            shutil.copyfile(path, folder / 'corpus' / kind / (path.name + suffix))
    for line in MADE:
        done = subprocess.run([binary, *line.split()], cwd=folder.parent, env=environment, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise SystemExit(f'{binary} {line}\n{done.stderr}')
    weights = folder / 'damaged/latest/model.safetensors'
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
