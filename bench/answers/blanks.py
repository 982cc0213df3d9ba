"""The parts of an answer that vary from run to run, and are blanked before two answers are compared."""
import re
from dataclasses import dataclass
from fnmatch import fnmatch

NUMBER = r'[-+.\deE]+'


@dataclass(frozen=True)
class Blank:
    command: str  # of the line that prints it, a pattern of the shell; 'file' for a file that a command writes
    where: str    # stdout, stderr or the path of a file; patterns too
    pattern: str
    instead: str
    why: str


BLANKS = [
    Blank('train', 'stdout',
          rf'"(step_seconds|median_step_seconds|tokens_per_second|flops_per_second)":{NUMBER}', r'"\1":_',
          'measured while it trains'),
    Blank('train', 'stdout', rf'"(bubble|predicted_bubble|predicted_step_seconds)":{NUMBER}', r'"\1":_',
          'measured, and simulated from the times of the layers that were measured'),
    Blank('train', 'stdout', r'(?m)^( +[\d,]+ +\S+ +\S+ +\S+) +[\d.,]+ \w+ +[\d.,]+ +[\d.,]+ +[\d.]+ % \(\d+ %\)', r'\1 _',
          'the same in the table: step time, tokens/s, GFLOP/s and bubble'),
    Blank('train', 'stdout', r'(?m)median step [\d.,]+ \w+, [\d.,]+ tokens/s', 'median step _', 'the same in the last line'),
    Blank('train', 'stdout', r'(?m)^\{"slow_at_step".*\n|^.* times as long as (before|the others).*\n', '',
          'a machine that others use too delays a stage now and then'),
    Blank('file', '*trace*.json', rf'"(ts|dur)":{NUMBER}', r'"\1":_', 'when an action of a training ran'),
    Blank('sample', 'stdout', rf'"seconds":{NUMBER}', '"seconds":_', 'measured while it writes'),
    Blank('doctor', 'stdout', r'"available_memory_bytes": \d+', '"available_memory_bytes": _', 'memory that others use too'),
    Blank('doctor', 'stdout', r'[\d.]+ [GM]iB available', '_ available', 'the same in the table'),
    Blank('train', 'stderr', r'this machine has [\d.]+ \w+ available', 'this machine has _ available', 'the same in an error'),
    Blank('train', 'std*', r'127\.0\.0\.1:\d+', '127.0.0.1:_', 'a port that is free is another one each time'),
    Blank('*', 'stderr', r'\.tmp-\d+-\d+', '.tmp-_', 'the process that writes a file under another name first'),
    Blank('file', '*.sluice/lock', r'(?s).+', '_', 'the host and process that hold a folder'),
]


def blanked(text, command, where):
    for blank in BLANKS:
        if fnmatch(command, blank.command) and fnmatch(where, blank.where):
            text = re.sub(blank.pattern, blank.instead, text)
    return text
