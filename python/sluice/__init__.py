"""Pipeline timetables, and plans for training across pipeline stages::

    import sluice

    t = sluice.schedule("auto", ranks=4, micro_batches=8, memory_limit=3)
    t.makespan, t.bubble, t.gap               # and a picture in a notebook
    p = sluice.plan("gpt2-xl", devices=4, device="a100", global_batch=64)
    p.stages, p.step_seconds, p.lower_bound
    with sluice.Trainer("char-gpt", data="text.txt", stages=2, steps=100) as trainer:
        trainer.fit()                         # needs the program: pip install 'sluice[train]'

They are those of ``sluice schedule``, ``sluice plan`` and ``sluice train``.
"""

from sluice._core import version as __version__
from sluice._errors import Infeasible, Invalid, Lost
from sluice._plan import Plan, plan, read_plan
from sluice._record import Action, CatalogueEntry, Defect, Record, Stage
from sluice._timetable import Comparison, Timetable, compare, read_csv, schedule, schedules
from sluice._trainer import Callback, Evaluation, Fit, Step, Trainer

__all__ = [
    "Action",
    "Callback",
    "CatalogueEntry",
    "Comparison",
    "Defect",
    "Evaluation",
    "Fit",
    "Infeasible",
    "Invalid",
    "Lost",
    "Plan",
    "Record",
    "Stage",
    "Step",
    "Timetable",
    "Trainer",
    "compare",
    "plan",
    "read_csv",
    "read_plan",
    "schedule",
    "schedules",
]
