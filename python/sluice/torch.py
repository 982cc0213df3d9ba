"""PyTorch models on sluice's timetables: measured, planned, and run by torch.distributed.pipelining.

    import sluice.torch as st

    layers = st.layers_of(model)                           # an nn.Sequential, or a Hugging Face model
    profile = st.profile(layers, micro_batch, loss_fn=loss)
    plan = profile.plan(devices=2, micro_batches=8)        # sluice.plan of what was measured
    run = st.pipeline(layers, plan, loss_fn=loss)          # on each of the plan's processes
    run.step(inputs, target=targets)                       # PyTorch's own schedule object

PyTorch 2.8 or newer. The timetable that runs is the one that was planned, action by action.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import statistics
import tempfile
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Type, Union

import torch
from torch import nn

from sluice._errors import Infeasible
from sluice._plan import Plan
from sluice._plan import plan as _plan

Layers = Union[nn.Sequential, Sequence[nn.Module]]

# Others of the same shape compute more between their modules: Gemma scales its embedding, Granite
# its logits.
_LIKE_LLAMA = ("llama", "mistral", "qwen2", "qwen3")

_CALLS = ("forward", "input_grad", "weight_grad", "apart_input_grad", "apart_weight_grad")


class _Embedding(nn.Module):
    """Token ids to hidden states, with learned positions and dropout where the model has them."""

    def __init__(
        self, tokens: nn.Module, positions: Optional[nn.Module], dropout: Optional[nn.Module]
    ) -> None:
        super().__init__()
        self.tokens, self.positions, self.dropout = tokens, positions, dropout

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.tokens(ids)
        if self.positions is not None:
            hidden = hidden + self.positions(torch.arange(ids.shape[1], device=ids.device))
        if self.dropout is not None:
            hidden = self.dropout(hidden)
        return hidden


class _Block(nn.Module):
    """A transformer block over whole sequences with causal attention."""

    def __init__(self, block: nn.Module, rotary: Optional[nn.Module]) -> None:
        super().__init__()
        self.block = block
        # Shared by all blocks, without parameters: each stage computes the angles that it needs.
        self.rotary = rotary

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        arguments: Dict[str, Any] = {}
        if self.rotary is not None:
            positions = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(0)
            arguments["position_embeddings"] = self.rotary(hidden, positions)
        out = self.block(hidden, **arguments)
        result: torch.Tensor = out[0] if isinstance(out, tuple) else out
        return result


class _Head(nn.Module):
    """The last norm, and logits."""

    def __init__(self, norm: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.norm, self.head = norm, head

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits


def layers_of(model: nn.Module) -> List[nn.Module]:
    """The layers of a model, one after the other: each takes what the one before it returns.

    An ``nn.Sequential`` has its own. Of transformers' causal language models there are GPT-2,
    Llama, Mistral, and Qwen 2 and 3, with PEFT's adapters or without: an embedding, the blocks, and
    a head, which share their modules, and so their parameters, with ``model``. Attention is causal
    over whole sequences, without padding; dropout is what the model has.

    Raises:
        ValueError: it is another model, or its head shares the embedding's weights, which two
            processes could not (``config.tie_word_embeddings=False`` gives it its own).
    """
    if isinstance(model, nn.Sequential):
        return list(model)
    if hasattr(model, "get_base_model"):
        peft: Any = model
        if any(config.is_prompt_learning for config in peft.peft_config.values()):
            raise ValueError(
                "this model learns a prompt, which is in none of its layers; of PEFT's models there "
                "are those with adapters in the layers, such as LoRA's"
            )
        model = peft.get_base_model()
    config: Any = getattr(model, "config", None)
    head = getattr(model, "lm_head", None)
    kind = getattr(config, "model_type", None)
    if kind not in ("gpt2", *_LIKE_LLAMA) or head is None:
        raise ValueError(
            f"{type(model).__name__} is neither an nn.Sequential nor a causal language model of "
            f"transformers (AutoModelForCausalLM) of the kinds gpt2, {', '.join(_LIKE_LLAMA)}; "
            "give a list of its layers"
        )
    if getattr(config, "tie_word_embeddings", False):
        raise ValueError(
            "the head of this model shares the embedding's weights, which stages on two processes "
            "could not; load it with tie_word_embeddings=False"
        )
    if getattr(config, "_attn_implementation", "sdpa") == "eager":
        raise ValueError(
            "eager attention is not causal without a mask, which stages do not pass on; load the "
            'model with attn_implementation="sdpa"'
        )
    if getattr(config, "sliding_window", None) is not None:
        raise ValueError(
            f"attention sees the last {config.sliding_window} tokens only, which needs a mask, and "
            "stages do not pass one on; load the model with sliding_window=None"
        )
    if kind == "gpt2":
        gpt: Any = getattr(model, "transformer")
        first: nn.Module = _Embedding(gpt.wte, gpt.wpe, gpt.drop)
        return [first, *(_Block(block, None) for block in gpt.h), _Head(gpt.ln_f, head)]
    llama: Any = getattr(model, "model")
    blocks = [_Block(block, llama.rotary_emb) for block in llama.layers]
    return [_Embedding(llama.embed_tokens, None, None), *blocks, _Head(llama.norm, head)]


@dataclasses.dataclass(frozen=True)
class LayerTimes:
    """What one layer costs on one device, for one micro-batch; seconds are medians."""

    name: str
    forward_seconds: float
    input_grad_seconds: float  # 0 of the first layer: nobody asks for it
    weight_grad_seconds: float
    # The same where I and W are actions of their own: PyTorch divides a backward by walking through
    # its graph, which takes time too.
    apart_input_grad_seconds: float
    apart_weight_grad_seconds: float
    least_seconds: Tuple[float, ...]  # the shortest of the five
    parameters: int
    parameter_bytes: int  # weights, gradients and the optimizer's state
    input_bytes: int
    saved_bytes: int  # kept from forward to backward, the input included, parameters not
    output_bytes: int


@dataclasses.dataclass(frozen=True)
class Profile:
    """A measured model. ``to_json`` is a ``profile.json`` of ``sluice plan``."""

    layers: Tuple[LayerTimes, ...]
    micro_batch_size: int
    seq: int
    dtype: str
    device: str
    repeats: int
    latency: float
    bandwidth: Optional[float]
    model: str = "model"
    optimizer: str = "adamw"

    def to_json(self) -> str:
        layers = []
        for layer in self.layers:
            entry: Dict[str, Any] = {"name": layer.name}
            for name, least in zip(_CALLS, layer.least_seconds):
                entry[f"{name}_seconds"] = getattr(layer, f"{name}_seconds")
                entry[f"{name}_seconds_min"] = least
            entry.update(
                restore_seconds=0.0,
                restore_seconds_min=0.0,
                parameters=layer.parameters,
                parameter_bytes=layer.parameter_bytes,
                # Stages compute whole layers again, or nothing.
                saved_bytes={
                    "none": layer.saved_bytes,
                    "selective": layer.saved_bytes,
                    "full": layer.input_bytes,
                },
                weight_grad_bytes=layer.saved_bytes,
                output_bytes=layer.output_bytes,
                workspace_bytes=0,
            )
            layers.append(entry)
        profile: Dict[str, Any] = {
            "format": "sluice profile",
            "version": 1,
            "model": self.model,
            "device": self.device,
            "micro_batch_size": self.micro_batch_size,
            "seq": self.seq,
            "dtype": self.dtype,
            "optimizer": self.optimizer,
            "repetitions": self.repeats,
            "link_latency": self.latency,
            "layers": layers,
        }
        if self.bandwidth is not None:
            profile["link_bandwidth"] = self.bandwidth
        return json.dumps(profile, indent=1)

    def plan(self, *, devices: int, recompute: str = "none", **flags: Any) -> Plan:
        """``sluice.plan`` of these layers: the flags of ``sluice plan`` as keywords."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.json")  # the name may have slashes
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.to_json())
            try:
                return _plan(path, devices=devices, recompute=recompute, **flags)
            except (Infeasible, ValueError) as error:
                # Nobody finds this file any more.
                error.args = (str(error).replace(path, f"the profile of {self.model}"),)
                if isinstance(error, Infeasible):
                    error.question["model"] = self.model
                raise


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class _Stopwatch:
    """Seconds of calls on a device, which may run behind the program."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __call__(self, work: Callable[[], Any]) -> Tuple[float, Any]:
        _synchronize(self._device)
        start = time.perf_counter()
        result = work()
        _synchronize(self._device)
        return time.perf_counter() - start, result


def _saved(layer: nn.Module, given: torch.Tensor) -> Tuple[int, torch.Tensor]:
    """The bytes that a forward keeps for its backward, its input included, and its output."""
    parameters = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    # The input may be a part of more data, which a micro-batch of its own would not keep.
    kept = {given.untyped_storage().data_ptr(): _bytes(given)}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept.setdefault(storage.data_ptr(), storage.nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = layer(given)
    return sum(kept.values()), out


class _Input:
    """What a layer is given: the tensor itself, or a copy each time where the layer changes it.

    Gradients of the tensor pass through a copy as they are.
    """

    def __init__(self, given: torch.Tensor) -> None:
        self.tensor = given
        self._is_changed = True  # until it is known

    def __call__(self) -> torch.Tensor:
        return self.tensor.clone() if self._is_changed else self.tensor

    def look_at(self, used: torch.Tensor) -> None:
        """``used``: one that the layer was given."""
        self._is_changed = used._version > 0


def _first_forward(layer: nn.Module, given: _Input, name: str) -> Tuple[int, torch.Tensor]:
    """_saved, of a layer that returns one tensor that has a gradient.

    Raises:
        ValueError: it does not, or does not take its input.
    """
    used = given()
    try:
        saved, out = _saved(layer, used)
    except (RuntimeError, TypeError) as error:
        before = "the micro-batch" if name.startswith("0 ") else "what the layer before it returns"
        raise ValueError(f"layer {name} does not take {before}: {error}") from error
    given.look_at(used)
    if not isinstance(out, torch.Tensor):
        raise ValueError(f"layer {name} returns a {type(out).__name__}; expected one tensor")
    if not out.is_floating_point():
        raise ValueError(f"layer {name} returns {out.dtype}, which has no gradient")
    return saved, out


def _measure(
    layer: nn.Module, source: _Input, name: str, repeats: int, stopwatch: _Stopwatch
) -> Tuple[List[Tuple[float, ...]], torch.Tensor, int]:
    """Seconds of each repetition, in the order of _CALLS; the output; the bytes that are saved."""
    trained = [p for p in layer.parameters() if p.requires_grad]
    given = source.tensor
    saved, out = _first_forward(layer, source, name)
    gradient = torch.randn_like(out)
    times: List[Tuple[float, ...]] = []
    for repeat in range(repeats + 1):
        used = source()
        forward, out = stopwatch(lambda: layer(used))
        input_grad = 0.0
        if given.requires_grad:
            input_grad, _ = stopwatch(
                lambda: torch.autograd.grad(out, given, gradient, retain_graph=True)
            )
        asked = ([given] if given.requires_grad else []) + trained
        whole = 0.0
        if asked:
            whole, _ = stopwatch(
                lambda: torch.autograd.grad(out, asked, gradient, allow_unused=True)
            )
        apart = (0.0, whole)
        if given.requires_grad and trained:
            apart = _measure_apart(layer, source, gradient, stopwatch)
        if repeat > 0:  # the first call warms up
            times.append((forward, input_grad, max(whole - input_grad, 0.0), *apart))
    return times, out.detach(), saved


def _measure_apart(
    layer: nn.Module, source: _Input, gradient: torch.Tensor, stopwatch: _Stopwatch
) -> Tuple[float, float]:
    """Seconds of I and of W as PyTorch's pipeline stages run them, one after the other."""
    from torch.distributed.pipelining import _backward

    given = source.tensor
    out = layer(source())
    parameters = list(layer.parameters())
    before = [p.grad for p in parameters]
    input_grad, (_, groups) = stopwatch(
        lambda: _backward.stage_backward_input([out], [gradient], [given], iter(parameters))
    )
    weight_grad, _ = stopwatch(
        lambda: _backward.stage_backward_weight(iter(parameters), groups)
    )
    given.grad = None
    for parameter, gradient_before in zip(parameters, before):
        parameter.grad = gradient_before
    return input_grad, weight_grad


@contextlib.contextmanager
def _unchanged(layer: nn.Module, device: torch.device) -> Iterator[None]:
    """Leaves what forwards change as it was: buffers, as running means, and random numbers."""
    buffers = [(buffer, buffer.clone()) for buffer in layer.buffers()]
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def profile(
    layers: Layers,
    micro_batch: torch.Tensor,
    *,
    loss_fn: Optional[Callable[[torch.Tensor], torch.Tensor]] = None,
    optimizer: str = "adamw",
    repeats: int = 7,
    latency: float = 0.0,
    bandwidth: Optional[float] = None,
    model: str = "model",
) -> Profile:
    """Times the layers of a model, one by one, on the device that they are on, and changes nothing.

    Args:
        layers: as ``layers_of`` returns them.
        micro_batch: the input of the first layer, of the size that one micro-batch has: floating
            point, or token ids [samples, tokens].
        loss_fn: of the last layer's output alone; it is timed as a part of the last layer.
        optimizer: "adamw" (two moments for each parameter) or "sgd" (none): for the bytes.
        repeats: how often each call is timed; the median counts.
        latency, bandwidth: seconds, and bytes per second, of a message between two processes.
        model: a name for people.

    Raises:
        ValueError: there are no layers, ``repeats`` is no whole number from 1 on, a layer does not
            take what the one before it returns, or returns no tensor that has a gradient.
    """
    modules = list(layers)
    if not modules:
        raise ValueError("there are no layers to measure")
    if not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeats is {repeats}; expected a whole number, at least 1")
    if torch.is_inference_mode_enabled():
        raise ValueError("torch.inference_mode() has no gradients; measure outside of it")
    states = {"adamw": 2, "sgd": 0}
    if optimizer not in states:
        raise ValueError(f"optimizer is '{optimizer}'; expected 'adamw' or 'sgd'")
    stopwatch = _Stopwatch(micro_batch.device)
    measured: List[LayerTimes] = []
    given = micro_batch
    for index, layer in enumerate(modules):
        last = index + 1 == len(modules)
        timed = nn.Sequential(layer, _Loss(loss_fn)) if last and loss_fn is not None else layer
        given = given.detach()
        if given.is_floating_point() and index > 0:
            given.requires_grad_()
        name = f"{index} {type(getattr(layer, 'block', layer)).__name__}"
        try:
            with _unchanged(timed, given.device), torch.enable_grad():
                times, out, saved = _measure(timed, _Input(given), name, repeats, stopwatch)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"layer {name} cannot be measured: {error}") from error
        columns = list(zip(*times))
        parameters = [p for p in layer.parameters() if p.requires_grad]
        weights = sum(_bytes(p) for p in layer.parameters())
        trained = sum(_bytes(p) for p in parameters)
        medians = dict(zip(_CALLS, map(statistics.median, columns)))
        measured.append(
            LayerTimes(
                name=name,
                **{f"{call}_seconds": seconds for call, seconds in medians.items()},
                least_seconds=tuple(map(min, columns)),
                parameters=sum(p.numel() for p in layer.parameters()),
                parameter_bytes=weights + trained * (1 + states[optimizer]),
                input_bytes=_bytes(given),
                saved_bytes=max(saved, _bytes(given)),
                output_bytes=_bytes(out),
            )
        )
        given = out
    ids = not micro_batch.is_floating_point() and micro_batch.dim() > 1
    floats = {p.dtype for module in modules for p in module.parameters()}
    return Profile(
        layers=tuple(measured),
        micro_batch_size=micro_batch.shape[0],
        seq=micro_batch.shape[1] if ids else 1,
        dtype="bf16" if floats == {torch.bfloat16} else "fp32",
        device=str(micro_batch.device),
        repeats=repeats,
        latency=latency,
        bandwidth=bandwidth,
        model=model,
        optimizer=optimizer,
    )


class _Loss(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, out: torch.Tensor) -> torch.Tensor:
        return self._function(out)


class _Saved:
    """What a backward needs of a forward: one tensor, once it was computed again."""

    tensor: Optional[torch.Tensor] = None


class _Again:
    """One forward of a layer that keeps its input alone, and is computed again in its backward.

    torch.utils.checkpoint computes it again for each call of autograd, and a backward that is
    divided into I and W has several. Here it is computed for the first of them, and its tensors
    live until the last one that needs them: what ``full`` costs in a plan.
    """

    def __init__(self, layer: nn.Module, given: torch.Tensor) -> None:
        self._layer = layer
        self._given = given.detach().requires_grad_(given.requires_grad)
        self._version = given._version
        self._saved: List["weakref.ref[_Saved]"] = []  # the graph has them
        self._random = torch.get_rng_state()
        kind = given.device.type
        self._device_random = torch.cuda.get_rng_state(given.device) if kind == "cuda" else None
        self._autocast: Any = contextlib.nullcontext()
        if torch.amp.is_autocast_available(kind):
            self._autocast = torch.autocast(
                kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
            )

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack):
            out: torch.Tensor = self._layer(given)
        return out

    def _pack(self, _: torch.Tensor) -> _Saved:
        saved = _Saved()
        self._saved.append(weakref.ref(saved))
        return saved

    def _unpack(self, saved: _Saved) -> torch.Tensor:
        if saved.tensor is None:
            self._compute()
        if saved.tensor is None:
            raise RuntimeError(
                f"{type(self._layer).__name__} computed something else the second time than the "
                'first, so that it has no backward; plan with recompute="none"'
            )
        return saved.tensor

    def _compute(self) -> None:
        if self._given._version != self._version:
            raise RuntimeError(
                f"the input of {type(self._layer).__name__} was changed in place, so that it cannot "
                'be computed again; plan with recompute="none", or make no layer work in place'
            )
        rest = iter(self._saved)

        def keep(tensor: torch.Tensor) -> None:
            reference = next(rest, None)
            saved = reference() if reference is not None else None
            if saved is not None:
                saved.tensor = tensor.detach()

        with _unchanged(self._layer, self._given.device):
            torch.set_rng_state(self._random)
            if self._device_random is not None:
                torch.cuda.set_rng_state(self._device_random, self._given.device)
            hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda nothing: nothing)
            with hooks, self._autocast, torch.enable_grad():
                self._layer(self._given)


class _RecomputedStage(nn.Sequential):
    """A stage that keeps the inputs of its layers, and computes each again in its backward."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        for layer in self:
            given = _Again(layer, given).forward(given) if torch.is_grad_enabled() else layer(given)
        return given


class _Frozen(nn.Sequential):
    """A stage before everything that is trained. PyTorch's stages behind it divide their backward
    by what it asks of them, so its output has a gradient, which ends there."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(given)
        return out.requires_grad_() if torch.is_grad_enabled() else out


# By what a plan says of a stage.
_STAGES: Dict[str, Type[nn.Sequential]] = {"none": nn.Sequential, "full": _RecomputedStage}


def stage_modules(layers: Layers, plan: Plan, rank: int) -> Dict[int, nn.Sequential]:
    """{stage: its layers} of the plan's stages on ``rank``.

    A stage whose ``recompute`` is "full" keeps the input of each of its layers, and computes the
    layer again in its backward, with the same random numbers.

    Raises:
        ValueError: the plan is for another number of layers, or for several replicas, or has stages
            that recompute a part of each layer, or layers on two ranks share a parameter, which would
            become two.
    """
    modules = list(layers)
    stages = plan.stages
    ends = [stage.last_layer for stage in stages]
    if ends[-1] is None or ends[-1] + 1 != len(modules):
        raise ValueError(
            f"the plan is for {'a graph' if ends[-1] is None else ends[-1] + 1} layers, and there "
            f"are {len(modules)}"
        )
    if any(stage.replicas != 1 for stage in stages):
        raise ValueError("the plan has replicas; plan one pipeline, and replicate it with DDP")
    for stage in stages:
        if stage.recompute not in _STAGES:
            raise ValueError(
                f"stage {stage.stage} of the plan has recompute '{stage.recompute}'; stages of "
                "PyTorch compute whole layers again ('full'), or nothing ('none'): plan with "
                'recompute="none", "full" or "auto"'
            )
    owners: Dict[int, Tuple[int, int]] = {}  # of each parameter: a layer, and its rank
    for stage in stages:
        for index in range(stage.first_layer, (stage.last_layer or 0) + 1):
            for parameter in modules[index].parameters():
                layer, owner = owners.setdefault(id(parameter), (index, stage.rank))
                if owner != stage.rank:
                    raise ValueError(
                        f"layers {layer} and {index} share a parameter, and are on ranks {owner} "
                        f"and {stage.rank}, which would each have their own"
                    )
    trained = [any(p.requires_grad for p in module.parameters()) for module in modules]
    first_trained = trained.index(True) if True in trained else 0
    return {
        stage.stage: (
            _Frozen if stage.last_layer < first_trained else _STAGES[stage.recompute]
        )(*modules[stage.first_layer : stage.last_layer + 1])
        for stage in stages
        if stage.rank == rank and stage.last_layer is not None
    }


def pipeline(
    layers: Layers,
    plan: Plan,
    *,
    loss_fn: Callable[..., torch.Tensor],
    rank: Optional[int] = None,
    device: Optional[torch.device] = None,
    group: Optional["torch.distributed.ProcessGroup"] = None,
    **options: Any,
) -> Any:
    """PyTorch's schedule object that runs the plan's timetable on this process.

    ``step(*inputs, target=..., losses=[...])`` is as for PyTorch's own schedules: the process of
    the first stage gives the inputs, that of the last one the targets. Parameters of this process
    are those of ``stage_modules(layers, plan, rank)``.

    Args:
        layers: all layers of the model; only this process's own are used (and moved to ``device``).
        loss_fn: of (output, target), the mean over a micro-batch.
        rank: of this process within ``group``; by default what torch.distributed says.
        options: further arguments of ``_PipelineScheduleRuntime``, such as ``scale_grads``.

    Raises:
        ValueError: as ``stage_modules``; or PyTorch cannot run this plan, and why.
    """
    from torch.distributed.pipelining import PipelineStage, schedules

    timetable = plan.timetable
    if timetable is None:
        raise ValueError("the plan has no timetable: it was made for the bottleneck alone")
    if rank is None:
        rank = torch.distributed.get_rank(group)
    processes = torch.distributed.get_world_size(group)
    if processes != timetable.ranks:
        raise ValueError(
            f"the plan is for {timetable.ranks} processes, and the group has {processes}"
        )
    where = device if device is not None else torch.device("cpu")
    count = len(plan.stages)
    own = stage_modules(layers, plan, rank)
    parts = [
        PipelineStage(module.to(where), stage, count, where, group=group)
        for stage, module in own.items()
    ]
    runtime: Any = schedules._PipelineScheduleRuntime
    schedule = runtime(
        parts, n_microbatches=timetable.micro_batches, loss_fn=loss_fn, **options
    )
    # What a table must say depends on what the runtime does by itself.
    if hasattr(schedules, "WAIT_SEND_F"):
        text, form = timetable.to_csv("comms", torch="2.15"), "compute_comms"
    elif not hasattr(schedules, "REDUCE_GRAD"):
        text, form = timetable.to_csv("comms", torch="2.8"), "compute_comms"
    else:  # between these two: PyTorch adds the messages
        text, form = timetable.to_csv(), "compute_only"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "timetable.csv")
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        schedule._load_csv(path, format=form)
    return schedule
