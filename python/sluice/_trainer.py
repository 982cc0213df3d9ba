"""Training, in the shape that users of Accelerate and of Hugging Face's Trainer know."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
import uuid
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Union

from sluice import _core, _flags
from sluice._data import InputFunction, Source, said, source_of
from sluice._errors import from_exit_code
from sluice._plan import Plan
from sluice._program import Interrupts, Program
from sluice._record import Record

__all__ = ["Callback", "Evaluation", "Fit", "Step", "Trainer"]

# Flags of `sluice train` that are something else here, and what.
_ELSEWHERE = {
    "json": "what would be printed is given to callbacks",
    "commands": "the methods of the trainer are the commands",
    "no_save": "nothing is saved unless save is given",
    "resume_or_start": "give resume where there is something to resume",
}
# Flags that name what is written, and what it is: True names nothing.
_WRITTEN = {"save": "a folder", "log": "a file", "tensorboard": "a folder", "trace": "a file"}
# Flags that the command line may turn on where they are not given, and turns off with --no-.
_NEGATABLE = ("pack", "cuda_graphs", "pin")


class Step(Record):
    """One training step, as ``sluice train --json`` has it.

    Fields:
        step: its number, from 1 on.
        loss: the mean over the step's targets; ``loss_hex`` has its bits.
        grad_norm, lr: the norm of the gradient before it is clipped, and the learning rate.
        step_seconds, tokens_per_second, flops_per_second: how fast it was.
        bubble: the idle share of the ranks; ``predicted_bubble`` by the times of earlier steps.
        peak_bytes, arena_bytes: [rank] predicted, and allocated.
    """

    step: int
    loss: float
    loss_hex: str
    grad_norm: float
    lr: float
    step_seconds: float
    tokens_per_second: float
    flops_per_second: float
    bubble: float
    predicted_bubble: float
    predicted_step_seconds: float
    peak_bytes: List[int]
    arena_bytes: List[int]


class Evaluation(Record):
    """What an evaluation found.

    Fields:
        step: after which step.
        loss: the mean over the targets of the validation data.
        accuracy: the share of targets whose most probable prediction was right.
        samples: how many.
    """

    step: int
    loss: float
    accuracy: float
    samples: int


class Fit(Record):
    """What ``Trainer.fit`` has done.

    Fields:
        steps: taken in all, earlier ones included.
        final_loss: of the last step; None where this call took none.
        median_step_seconds, tokens_per_second: of the steps of this call.
        history: a ``Step`` for each of them, on rank 0.
    """

    steps: int
    final_loss: Optional[float]
    median_step_seconds: float
    tokens_per_second: float
    history: List[Step]


class Callback:
    """What is told what happens, on rank 0; each method does nothing unless it is overridden."""

    def on_step(self, trainer: "Trainer", step: Step) -> None:
        """After each step."""

    def on_evaluate(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        """After each evaluation."""

    def on_save(self, trainer: "Trainer", path: str) -> None:
        """After each checkpoint, with its folder."""


class Trainer:
    """A training run of a model across pipeline stages.

    The run lives in a process of the program `sluice`, which starts with the trainer and ends with
    ``close()`` or the ``with`` block. All losses and weights are those of ``sluice train`` with the
    same flags, to the last bit, for any number of stages and replicas, and however the steps are
    divided into calls of ``fit``. PipeDream and PipeDream-2BW are the exception, for they have no flush:
    only where a call of ``fit`` ends (as at each evaluation and checkpoint) do all micro-batches run
    to their ends, and those after it begin with newer weights, which shows in the bits.

    The same Python source runs on one rank or many: alone, the stages are threads; under
    ``torchrun --nproc-per-node N`` or ``mpirun -n N`` each process is one rank. All ranks must call
    the same methods in the same order. Callbacks run on rank 0 (``is_main``). While a method runs,
    callbacks and other threads may call ``stop``, and no other method.

    Args:
        model: a preset, a ``config.json``, or a Hugging Face folder, whose weights are taken unless
            ``init`` says otherwise; None: the plan's, or the checkpoint's.
        data: what to train on:

            - a path, as ``--data`` takes it;
            - a row of tokens: a 1-D array of integers;
            - texts, or dicts with "text", "prompt" and "completion", or "messages": a list, or a
              dataset of Hugging Face's ``datasets``, of a ``DatasetDict`` one split;
            - an input function: called with the number of a micro-batch, it returns tokens
              [micro_batch_size, seq + 1], or (inputs, targets) of [micro_batch_size, seq] each, with
              -100 as a target that does not count; for an MLP, (images, labels). It must return the
              same for the same number, on every rank. From a step whose targets all do not count
              nothing is learnt: its loss and its gradients are 0.
        plan: a ``sluice.Plan`` or the path of one; it replaces ``stages``, ``schedule`` and more. A
            ``Plan`` is written to ``save`` as ``plan.json``, or beside that if it is another plan's.
        lora: ``{"r": 16, "alpha": 32}`` trains an adapter.
        init: weights to start from: a folder or a file; False: random ones.
        resume: a checkpoint to go on from.
        steps: of the whole run, which the learning rate's schedule follows.
        eval_fn, eval_micro_batches: for an input function: the data of ``evaluate``; for other data
            ``eval_micro_batches`` is how many of the validation data an evaluation takes.
        callbacks: a ``Callback`` each, or functions that are called with each ``Step``.
        **flags: every other flag of ``sluice train`` (``sluice train --help``), with underscores:
            ``stages=2``, ``schedule="zbv"``, ``micro_batch_size=4``, ``lr=1e-4``, ``dtype="bf16"``,
            ``save="out"``, ``save_every=100``, ``eval_every=50``, ...

    Raises:
        ValueError: an argument or the data are wrong.
        RuntimeError: a method was called while another one was running.
        ModuleNotFoundError: the program is not installed (``pip install 'sluice[train]'``).
        sluice.Infeasible, sluice.Invalid, sluice.Lost, MemoryError: as the exit codes of the
            command line.
    """

    def __init__(
        self,
        model: Union[str, "os.PathLike[str]", None] = None,
        data: Any = None,
        *,
        plan: Union[Plan, str, "os.PathLike[str]", None] = None,
        lora: Any = None,
        init: Union[str, "os.PathLike[str]", bool, None] = None,
        resume: Union[str, "os.PathLike[str]", None] = None,
        steps: Optional[int] = None,
        eval_fn: Optional[InputFunction] = None,
        eval_micro_batches: int = 0,
        callbacks: Iterable[Union[Callback, Callable[[Step], None]]] = (),
        **flags: Any,
    ) -> None:
        for name, instead in _ELSEWHERE.items():
            if name in flags:
                raise ValueError(f"sluice.Trainer has no keyword '{name}': {instead}")
        for name, what in _WRITTEN.items():
            if flags.get(name) is True:
                raise ValueError(f"{name} is True; expected the path of {what}, or leave it out")
        if data is None:
            raise ValueError("data is missing; give a path, tokens, texts or an input function")
        if isinstance(flags.get("validation"), Iterable) and not isinstance(flags["validation"], str):
            raise ValueError(
                f"validation is {said(flags['validation'])}; expected the path of a file, or the share "
                "of the data to hold out, such as 0.1"
            )
        self._program: Optional[Program] = None
        self._busy = threading.Lock()  # held while a method runs, whose name is _running
        self._running = ""
        self._stops = False  # whether stop() was called for it
        self._why = ""  # it was closed, if an error has done that
        self._taken = self._saved = 0  # steps
        self._finalizer: Callable[[], Any] = lambda: None
        asked = callable(data)  # else the number of micro-batches is a flag like any other
        self._eval = (eval_fn, eval_micro_batches if asked else 0)
        once = isinstance(data, Iterator) and not callable(data)
        self._data = self._written(data) if once else data
        self._plan = plan
        self._overwrite = bool(flags.get("overwrite"))
        self._callbacks = [
            each if isinstance(each, Callback) else _OnStep(each) for each in callbacks
        ]
        self._keywords: Dict[str, Any] = {
            "model": model,
            "lora": lora,
            "init": _weights_of(model) if init is None and resume is None else init or None,
            "resume": resume,
            "steps": steps,
            "eval_micro_batches": None if asked else eval_micro_batches or None,
            **flags,
            **{f"no_{name}": True for name in _NEGATABLE if flags.get(name) is False},
        }
        self._start()

    # ------------------------------------------------------------------ what users call

    def fit(self, steps: Optional[int] = None) -> Fit:
        """Takes steps, and tells the callbacks of each.

        Args:
            steps: how many; fewer are taken where the run's last step comes first, and none after
                it: ``history`` is then empty and ``final_loss`` None. None: all that are left. When
                the last one is reached, what ``save`` and ``eval_every`` ask for is done too; a
                checkpoint that cannot be written is then an error, and a line on stderr before
                that.

        Ctrl-C ends it after the step that is being taken; KeyboardInterrupt is then raised, and
        the trainer can still be used; so is what a callback raises. A second Ctrl-C ends the
        trainer, and so does whatever ends the run: an input function that raises (its exception is
        then that of ``fit``), a rank or a device that is lost. The steps since the last checkpoint
        are lost with it, so let ``save`` and ``save_every`` keep them; ``load_state`` goes on from
        there with the same trainer.
        """
        fields = {} if steps is None else {"steps": int(steps)}
        if steps is not None and steps < 0:
            raise ValueError(f"steps is {steps}; expected at least 0")
        return self._do("fit", "fit", **fields)

    def evaluate(self) -> Evaluation:
        """The loss on the validation data, with the weights as they are now.

        Raises:
            ValueError: there are no validation data, or no target of theirs counts.
        """
        done = self._do("evaluate", "evaluate")
        if "eval_loss" not in done:
            raise ValueError(
                "there are no validation data, or no target of theirs counts; give validation, or eval_fn"
            )
        return _evaluation(done["steps"], done)

    def save_state(
        self, directory: Union[str, "os.PathLike[str]"], *, overwrite: bool = False
    ) -> Optional[str]:
        """Saves a checkpoint: weights, optimizer state, step and data position, in a folder below
        ``directory`` that transformers loads too. All ranks call it.

        Args:
            overwrite: replace the checkpoints of another run that are there.

        Returns:
            The checkpoint's folder, on rank 0.
        """
        fields = {"directory": os.path.abspath(directory), "overwrite": bool(overwrite)}
        done = self._do("save_state", "save", **fields)
        path = done.get("checkpoint")
        return None if path is None else str(path)

    def load_state(self, directory: Union[str, "os.PathLike[str]"]) -> None:
        """Goes on from a checkpoint, of this run or of one that has another number of stages. All
        ranks call it.

        With ``save``, checkpoints there that are not those it goes on from are replaced only if
        ``overwrite`` says so; else this is refused, and nothing has changed. Nor has it where there
        is no checkpoint. After any other error, as of a damaged checkpoint, the trainer is closed.
        """
        with self._alone("load_state"):
            before = dict(self._keywords)
            save = before.get("save")
            goes_on = save is not None and _lies_in(directory, save)
            if save is not None and not goes_on and not self._overwrite and _has_checkpoints(save):
                raise ValueError(
                    f"{os.fspath(directory)} is not in {os.fspath(save)}, where this run has saved "
                    "checkpoints; load one of those, or have them replaced: "
                    "Trainer(..., overwrite=True)"
                )
            _find_checkpoint(directory)
            self._close()
            overwrite = self._overwrite and not goes_on
            self._keywords.update(resume=os.fspath(directory), init=None, overwrite=overwrite)
            try:
                self._start()
            except BaseException as error:
                self._keywords = before
                self._close(error)
                raise

    def weights_hash(self) -> str:
        """A hash of every weight: equal for equal weights, however they are divided. The weights
        are brought to rank 0 for it. All ranks call it."""
        return str(self._do("weights_hash", "hash")["weights_hash"])

    def stop(self) -> None:
        """For callbacks: asks ``fit`` to end after the step that is being taken, on all ranks."""
        self._stops = True  # also where its command has not been sent yet
        if self._program is not None:
            self._program.stop()

    def close(self) -> None:
        """Ends the run, without a checkpoint. It may be called again."""
        with self._alone("close"):
            self._close()

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None and self._busy.locked():
            self.stop()  # what another thread runs; the block's exception says more than close's
            return
        self.close()

    @property
    def step(self) -> int:
        """Steps taken so far."""
        return self._step

    @property
    def rank(self) -> int:
        """This process's rank; 0 where the ranks are threads of one process."""
        return int(self._about["rank"])

    @property
    def ranks(self) -> int:
        """Of all stages and replicas."""
        return int(self._about["ranks"])

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0's process, where callbacks are called."""
        return self.rank == 0

    @property
    def about(self) -> Record:
        """What runs: ``model``, ``schedule``, ``partition``, ``stages``, ``ranks``,
        ``micro_batch_size``, ``micro_batches`` and ``seq``."""
        return Record({name: value for name, value in self._about.items() if name != "ready"})

    def __repr__(self) -> str:
        about = self._about
        return (
            f"<Trainer of {about['model']}: {about['stages']} stages, {about['schedule']}, "
            f"step {self._step}>"
        )

    # ------------------------------------------------------------------ the program

    def _start(self) -> None:
        folder = tempfile.mkdtemp(prefix="sluice-")
        source: Optional[Source] = None
        program: Optional[Program] = None
        try:
            source = source_of(self._data, *self._eval, folder)
            save = self._keywords.get("save")
            keywords = {**self._keywords, "plan": _plan_file(self._plan, save or folder)}
            if save is None and keywords["resume"] is not None:
                keywords["no_save"] = True  # the command line would go on saving there
            words = [*_flags.flags(keywords), f"--data={source.path}"]
            program = Program(words, source.fds)
            source.started()
            self._source = source
            self._program = program
            self._about = self._next_line()
        except BaseException:
            self._program = None
            _end(os.getpid(), program, source, folder)
            raise
        self._finalizer = weakref.finalize(self, _end, os.getpid(), program, source, folder)
        self._step = 0
        self._why = ""
        self._ask("fit", steps=0)
        # As far as rank 0 has heard; the others hear neither of steps nor of what fit saves.
        self._taken = self._saved = self._step

    def _written(self, data: Iterator[Any]) -> str:
        """The documents of an iterator as a file, since load_state reads the data again."""
        folder = tempfile.mkdtemp(prefix="sluice-")
        weakref.finalize(self, _remove, os.getpid(), folder)
        return source_of(data, *self._eval, folder).path

    def _close(self, error: Optional[BaseException] = None) -> None:
        """Ends the run; ``error`` is why, where nobody has asked for it."""
        self._finalizer()
        self._program = None
        if error is None:
            return
        if error is self._source.error:
            self._why = f": {self._source.failure}"
        else:
            words = f": {error}" if str(error) else ""
            self._why = f": {self._running} has raised {type(error).__name__}{words}"
        if self._taken > self._saved:
            first, last = self._saved + 1, self._taken
            lost = f"step {last} was" if first == last else f"steps {first} to {last} were"
            self._why += f"; {lost} not saved"
        self._why += "; load_state goes on from a checkpoint"

    @contextlib.contextmanager
    def _alone(self, method: str) -> Iterator[None]:
        """Refuses a method while another one waits for the program, which does one thing at a time
        and whose answers do not say to which command they belong."""
        if not self._busy.acquire(blocking=False):
            first = "stop(), and then " if self._running == "fit" else ""
            raise RuntimeError(
                f"{method}() was called by a callback or another thread while {self._running}() is "
                f"running; call {first}{method}() after {self._running}() has returned"
            )
        try:
            self._running = method
            self._stops = False
            yield
        finally:
            self._busy.release()

    def _next_line(self) -> Dict[str, Any]:
        assert self._program is not None
        try:
            return next(self._program.lines())
        except (ValueError, RuntimeError) as error:
            # What an input function raised is worth more than what the program makes of it.
            if self._source.error is not None:
                raise self._source.error from error
            raise

    def _do(self, method: str, what: str, **fields: Any) -> Fit:
        with self._alone(method):
            return self._ask(what, **fields)

    def _ask(self, what: str, **fields: Any) -> Fit:
        if self._program is None:
            raise ValueError(f"the trainer is closed{self._why}")
        with Interrupts(self._program) as interrupts:
            return self._answer(interrupts, what, **fields)

    def _answer(self, interrupts: Interrupts, what: str, **fields: Any) -> Fit:
        assert self._program is not None
        history: List[Step] = []
        raised: Optional[BaseException] = None  # by a callback, or by a handler of the user's
        self._program.command(do=what, **fields)
        if self._stops or interrupts.count > 0:
            self._program.stop()  # one that was sent before the command was for another
        while True:
            try:
                line = self._next_line()
                if "loss" in line:
                    self._taken = int(line["step"])
                if "checkpoint" in line:
                    self._saved = int(os.path.basename(line["checkpoint"]).removeprefix("step-"))
                if "done" in line or "refused" in line:
                    break
            except KeyboardInterrupt as interrupt:  # of a handler that the user has set
                if isinstance(raised, KeyboardInterrupt):
                    self._program.kill()
                    self._close(interrupt)
                    raise
                raised = interrupt
                self._program.stop()
                continue
            except BaseException as error:
                ended = KeyboardInterrupt() if interrupts.count > 1 else error
                self._close(ended)
                if ended is not error:
                    raise ended from None
                raise
            if raised is not None or interrupts.count > 0:
                continue
            try:
                try:
                    interrupts.raises = True
                    self._tell(line, history)
                finally:
                    interrupts.raises = False
            except BaseException as error:  # pylint: disable=broad-except
                raised = error  # once the step that is being taken has ended
                interrupts.count += isinstance(error, KeyboardInterrupt)
                self._program.stop()
        if "refused" in line:
            if what == "fit":
                self._ask("fit", steps=0)  # steps may have been taken before
            raise from_exit_code(int(line["exit_code"]), str(line["refused"]))
        self._step = int(line["steps"])
        if raised is not None:
            raise raised
        done = {name: value for name, value in line.items() if name not in ("done", "interrupted")}
        return Fit({"final_loss": None, **done, "history": history})

    def _tell(self, line: Dict[str, Any], history: List[Step]) -> None:
        if "loss" in line:
            history.append(Step(line))
            for each in self._callbacks:
                each.on_step(self, history[-1])
        elif "eval_loss" in line:
            evaluation = _evaluation(line["evaluated_step"], line)
            for each in self._callbacks:
                each.on_evaluate(self, evaluation)
        elif "checkpoint" in line:
            for each in self._callbacks:
                each.on_save(self, str(line["checkpoint"]))


class _OnStep(Callback):
    """A function that is called with each step."""

    def __init__(self, function: Callable[[Step], None]) -> None:
        self._function = function

    def on_step(self, trainer: Trainer, step: Step) -> None:
        self._function(step)


def _evaluation(step: int, line: Dict[str, Any]) -> Evaluation:
    return Evaluation(
        step=step, loss=line["eval_loss"], accuracy=line["accuracy"], samples=line["eval_samples"]
    )


def _end(owner: int, program: Optional[Program], source: Optional[Source], folder: str) -> None:
    """Ends a run of the process ``owner``; one that it has forked leaves the run alone."""
    if os.getpid() != owner:
        return
    if program is not None:
        program.close()
    if source is not None:
        source.close()
    _remove(owner, folder)


def _remove(owner: int, folder: str) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _lies_in(
    checkpoint: Union[str, "os.PathLike[str]"], directory: Union[str, "os.PathLike[str]"]
) -> bool:
    """Whether a checkpoint is one of those in a directory of ``save``, or is named by it."""
    found, saved = os.path.realpath(checkpoint), os.path.realpath(directory)
    return saved in (found, os.path.dirname(found))


def _has_checkpoints(directory: Union[str, "os.PathLike[str]"]) -> bool:
    """Whether a directory of ``save`` has any."""
    if not os.path.isdir(directory):
        return False
    steps = [name for name in os.listdir(directory) if name.startswith("step-")]
    return any(os.path.exists(os.path.join(directory, step, "state.json")) for step in steps)


def _find_checkpoint(directory: Union[str, "os.PathLike[str]"]) -> None:
    """Raises what a run that is to go on from there would end with, if there is none."""
    found = _core.find_checkpoint_to_resume(os.fspath(directory))
    state = os.path.join(found, "state.json")
    # Where the newest of several lacks it, the run goes on from one before.
    if os.path.realpath(found) == os.path.realpath(directory) and not os.path.exists(state):
        raise ValueError(
            f"no checkpoint: cannot open {state}; expected a directory that save wrote, or one "
            "step-... folder of it"
        )


def _weights_of(model: Union[str, "os.PathLike[str]", None]) -> Optional[str]:
    """The folder of a model, where it has weights."""
    if model is None or not os.path.isdir(model):
        return None
    files = os.listdir(model)
    has = any(name.endswith((".safetensors", ".safetensors.index.json")) for name in files)
    return os.fspath(model) if has else None


def _plan_file(
    plan: Union[Plan, str, "os.PathLike[str]", None], folder: Union[str, "os.PathLike[str]"]
) -> Union[str, "os.PathLike[str]", None]:
    """The path of a plan, which is written to a folder if it has none. Another plan that is there
    stays, under its name: a run that saved to the folder goes on from it, unless it is replaced."""
    if not isinstance(plan, Plan):
        return plan
    os.makedirs(folder, exist_ok=True)
    text = plan.to_json().encode()
    path = os.path.join(folder, "plan.json")
    if _content(path) not in (None, text):
        path = os.path.join(folder, f"plan-{hashlib.sha256(text).hexdigest()[:16]}.json")
    if _content(path) != text:
        written = f"{path}.{uuid.uuid4().hex}"  # other ranks may write the same, or read it
        with open(written, "wb") as file:
            file.write(text)
        os.replace(written, path)
    return path


def _content(path: str) -> Optional[bytes]:
    """Of a file; None where there is none."""
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()
