"""Commands about the program as a whole, and those whose answers are mostly measured."""
from .case import ask

HELP = ['--help', '-h', 'schedule --help', 'schedule list --help', 'schedule show --help', 'schedule compare --help',
        'schedule check --help', 'plan --help', 'profile --help', 'train --help', 'sample --help', 'calibrate --help',
        'doctor --help']
REFUSED = ['', 'trian', '--version', '--unknown', 'schedule', 'schedule shaw', 'schedule list more', 'doctor more',
           'doctor --unknown', 'help']
DOCTOR = ['doctor', 'doctor --json', 'NO_COLOR=1 doctor']
PROFILE = ['profile', 'profile none', 'profile gpt2 --device tpu', 'profile gpt2 --device cuda',
           'profile gpt2 --device cuda --stages 2', 'profile gpt2 --dtype fp8', 'profile gpt2 --optimizer adam',
           'profile in/none.json', 'profile in/qwen.json', 'profile gpt2 --repetitions 0', 'profile gpt2 --micro-batch-size 0',
           'profile gpt2 --stages 0', 'profile gpt2 --seq 0', 'profile mlp --layers 3', 'profile gpt2 --attention cudnn',
           'profile gpt2 --unknown']


def cases():
    return [ask(line) for line in HELP + REFUSED + DOCTOR + PROFILE]
