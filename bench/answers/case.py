"""One case: command lines that run one after the other in their own scratch folder."""
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """The lines are what follows `sluice` in a shell: in/ holds the inputs, shared/ the data beside the repository, and
    NAME=value in front sets the environment. `ranks` processes run the last line together, over TCP."""
    steps: tuple
    ranks: int = 1

    @property
    def name(self):
        together = '' if self.ranks == 1 else f' ({self.ranks} processes)'
        return ' && '.join(self.steps) + together

    @property
    def needs_shared(self):
        return any('shared/' in step for step in self.steps)


def ask(*steps, ranks=1):
    return Case(tuple(' '.join(step.split()) for step in steps), ranks)


def command_of(step):
    """The subcommand of a line, such as 'train'; '' where there is none."""
    words = [word for word in step.split() if not re.match('[A-Z_]+=', word)]
    return words[0] if words else ''


def after_environment(command, line):
    """'COLUMNS=120 train --json' from 'train' and 'COLUMNS=120 --json'."""
    return re.sub(r'^(?:[A-Z_]+=\S* +)*', lambda found: f'{found.group()}{command} ', line)
