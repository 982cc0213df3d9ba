"""The commands of `sluice schedule`."""
import itertools

from .case import after_environment, ask
from .inputs import corpus_files

NAMES = ['gpipe', '1f1b', 'eager-1f1b', 'interleaved', 'interleaved-zb', 'bfs', 'zb-h1', 'zb-h2', 'zb-2p', 'zbv', 'v-half',
         'v-min', 'dualpipev', 'chimera', 'hanayo', 'pipedream', 'pipedream-2bw', 'auto']
SHAPES = ['-p 1 -m 1', '-p 2 -m 4', '-p 3 -m 7', '-p 8 -m 16']
FORMATS = ['svg', 'html', 'csv', 'comms-csv', 'trace', 'json', 'json --actions']
# For every name, with four ranks and eight micro-batches.
WITH = ['', '-v 1', '-v 3', '-v 4', '--group 2', '--recompute', '--memory-limit 3', '--cost F=1,B=2',
        '--cost F=2,I=3,W=1,send=0.5', '--cost F=1,I=1,W=1,overlap=2.5', '--recompute --cost F=1,B=2,RECOMPUTE=0.5',
        '--costs in/costs4.json --json', '--costs in/costs8.json --json', '--stage-replicas 2,1,1 --format csv']
TABLES = ['torch_dualpipev_p4_m8.compute.csv', 'torch_interleaved1f1b_p4_m8_v2.comms.csv',
          'torch_interleaved1f1b_p4_m8_v2.compute.csv', 'torch_zbv_p4_m8.compute.csv', 'zb1p_2rank_4stage_8mb.comms.csv',
          'zb1p_2rank_4stage_8mb.compute.csv']
OF_TABLES = ['check {}', 'check {} --json', 'check {} --placement v', 'show {}', 'show {} --format svg',
             'show {} --json --actions', 'show {} --format comms-csv', 'show {} --placement looped', 'show {} -p 2',
             'show {} --recompute --format csv']
AUTO = ['-m 8 --memory-limit 1', '-m 8 --memory-limit 2', '-m 8 --memory-limit 4', '-m 12 -v auto',
        '-m 8 -v auto --placement v', '-m 8 -v auto --placement looped --memory-limit 3',
        '-m 8 -v 2 --placement v --memory-limit 5', '-m 8 -v 2 --placement looped', '-m 8 --costs in/costs4.json',
        '-m 8 --costs in/costs4_speed.json --json', '-m 6 --costs in/costs4_backward.json', '-m 8 --time-limit 60s',
        '-m 8 --memory-limit 0', '-m 8 --placement bidirectional', '-m 8 --memory-limit 3 --format csv',
        '-m 8 --memory-limit 3 --format svg -o out.svg', '-m 8 -v auto --cost F=1,I=2,W=1,send=0.25 --json']
SHOWN = ['show 1f1b -p 4 -m 8 --width 60', 'show 1f1b -p 4 -m 64 --width 200', 'COLUMNS=120 show gpipe -p 4 -m 16',
         'LC_ALL=C show zbv -p 4 -m 8', 'NO_COLOR=1 show zbv -p 4 -m 8', 'show 1f1b -p 4 -m 8 --format svg -o out.svg',
         'show chimera -p 4 -m 8 --format svg --width 640', "show pipedream-2bw -p 4 -m 8 --format svg --title ''",
         'show 1f1b -p 4 -m 8 --format csv -o out.csv', 'show 1f1b -p 4 -m 8 --json -o out.json',
         'show 1f1b -p 4 -m 8 -o out.txt', 'show 1f1b -p 4 -m 8 --against zb-h1 --format html',
         'show interleaved -p 2 -m 4 --against in/interleaved.csv --format html',
         'show 1f1b -p 4 -m 8 --against auto --memory-limit 4 --format html', 'show 1f1b -p 4 -m 8 --against zb-h1',
         'show 1f1b -p 2 -m 4 --measured in/trace.json --format html',
         'show zb-h1 -p 2 -m 4 --measured in/trace.json --format html',
         'show 1f1b -p 2 -m 4 --measured in/costs4.json --format html', 'show 1f1b -p 2 -m 4 --measured in/trace.json',
         'show 1f1b -m 12 --stage-replicas 3,1', 'show zb-h1 -m 12 --stage-replicas 1,2,1',
         'show auto -m 12 --stage-replicas 2,1 --json', 'show 1f1b -m 12 --stage-replicas 3,1 --format html',
         'show 1f1b -m 12 --stage-replicas 3,1 --against zb-h1 --format html', 'show 1f1b -p 3 -m 12 --stage-replicas 3,1',
         'show in/sound.csv --stage-replicas 2,1', 'show 1f1b --stage-replicas 3,x -m 4',
         'show pipedream-2bw -p 4 -m 8 --update-every 2', 'show pipedream-2bw -p 4 -m 8 --update-every 4 --format csv',
         'show 1f1b -p 4 -m 8 --update-every 2', 'show pipedream-2bw -p 4 -m 8 --update-every 0',
         'show interleaved -p 4 -m 8 -v 2 --group 3', 'show interleaved -p 4 -m 8 -v 2 --group 0',
         'show interleaved-zb -p 4 -m 6 -v 3', 'show 1f1b -p 4 -m 8 --costs in/costs4_backward.json',
         'show 1f1b -p 4 -m 8 --costs in/costs4_speed.json', 'show in/interleaved.csv', 'show in/zbv_comms.csv',
         'show in/zbv_comms.csv --format csv', 'show 1f1b -p 4 -m 8 --placement v', 'show zbv -p 4 -m 8 --placement v',
         'show chimera -p 4 -m 8 --placement bidirectional', 'show 1f1b -p 32 -m 128 --json']
COMPARED = ['compare -p 4 -m 8', 'compare -p 3 -m 7', 'compare -p 8 -m 24', 'compare -p 4 -m 8 --json',
            'compare -p 4 -m 8 -v 4', 'compare -p 4 -m 8 --group 2 -v 2', 'compare -p 4 -m 8 --cost F=1,I=2,W=1,send=0.1',
            'compare -p 4 -m 8 --costs in/costs4.json', 'compare 1f1b zb-h1 auto -p 4 -m 8 --json --actions',
            'compare 1f1b zbv -p 4 -m 8 --memory-limit 4', 'compare 1f1b zb-h1', 'compare -p 4 -m 8 --recompute',
            'compare 1f1b nothing -p 4 -m 8', 'compare 1f1b -p 4 -m 8 --format svg', 'compare -p 4 -m 8 -o out.txt',
            'compare -p 4 -m 8 --json -o out.json', 'compare -p 1 -m 1', 'compare -p 4 -m 8 --placement v',
            'compare -p 4 -m 8 --memory-sweep', 'compare -p 3 -m 6 --memory-sweep --format svg -o out.svg',
            'compare -p 3 -m 6 --memory-sweep --json', 'compare -p 3 -m 6 --memory-sweep --memory-limit 4 -v 2',
            'compare 1f1b -p 3 -m 6 --memory-sweep', 'COLUMNS=120 compare -p 3 -m 6 --memory-sweep --placement v']
REFUSED = ['show', 'show 1f1b', 'show 1f1b -p 4', 'show 1f1b -p 0 -m 8', 'show 1f1b -p 4 -m -1', 'show 1f2b -p 4 -m 8',
           'show 1f1b -p x -m 8', 'show 1f1b -p 4 -m 99999999999', 'show 1f1b -p 1000000 -m 1000000',
           'show 1f1b -p 4 -m 8 -v auto', 'show 1f1b -p 4 -m 8 -v two', 'show 1f1b -p 4 -m 8 --cost F=-1',
           'show 1f1b -p 4 -m 8 --cost F=nan', 'show 1f1b -p 4 -m 8 --cost X=1', 'show 1f1b -p 4 -m 8 --cost F=1,F=2',
           'show 1f1b -p 4 -m 8 --cost F', 'show 1f1b -p 4 -m 8 --cost F=1e308,B=1e308',
           'show 1f1b -p 4 -m 8 --cost F=1 --costs in/costs4.json', 'show 1f1b -p 4 -m 8 --costs in/none.json',
           'show 1f1b -p 4 -m 8 --costs in/words.json', 'show 1f1b -p 4 -m 8 --costs in/cut.json',
           'show 1f1b -p 4 -m 8 --format pdf', 'show 1f1b -p 4 -m 8 --width 10', 'show 1f1b -p 4 -m 8 -o none/out.svg',
           'show 1f1b -p 4 -m 8 --unknown', 'show in/none.csv', 'show in/unsound.csv', 'show in/words.csv', 'show in/empty',
           'check', 'check in/none.csv', 'check in/empty', 'check in/unsound.csv', 'check in/unsound.csv --json',
           'check in/sound.csv', 'check in/sound.csv --json', 'check in/sound.csv --placement bidirectional',
           'check in/words.csv', 'check in', 'check in/interleaved.csv', 'check in/interleaved.csv --placement v',
           'check in/zbv_comms.csv', 'show auto -p 4 -m 8 --recompute', 'show auto -p 4 -m 8 --group 2', 'show auto -p 4',
           'show auto -p 4 -m 8 --time-limit soon', 'show chimera -p 3 -m 8', 'show zbv -p 4 -m 8 -v 4',
           'show hanayo -p 4 -m 8 -v 3', 'show 1f1b -p 4 -m 8 --placement diagonal']


def named():
    for name, shape in itertools.product(NAMES, SHAPES):
        yield f'show {name} {shape}'
    for name, form in itertools.product(NAMES, FORMATS):
        yield f'show {name} -p 4 -m 8 --format {form}'
    for name, flags in itertools.product(NAMES, WITH):
        replicas = '--stage-replicas' in flags
        yield f"show {name} {'' if replicas else '-p 4'} -m 8 {flags}"


def of_files():
    for folder, name in corpus_files():
        if folder == 'timetable_csv':
            yield f'check in/corpus/{folder}/{name}'
            yield f'show in/corpus/{folder}/{name} --json'
        if folder == 'costs_json':
            yield f'show 1f1b -p 3 -m 4 --costs in/corpus/{folder}/{name}'
    for table, line in itertools.product(TABLES, OF_TABLES):
        yield line.format(f'shared/schedules/{table}')


def cases():
    lines = ['list', 'list --json', 'COLUMNS=120 list', *named(), *of_files(), *SHOWN, *COMPARED, *REFUSED]
    lines += [f'show auto -p 4 {flags}' for flags in AUTO]
    return [ask(after_environment('schedule', line)) for line in lines]
