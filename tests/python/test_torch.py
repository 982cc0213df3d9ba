"""sluice.torch: measured layers, their plan, and training by PyTorch. Skipped where there is no torch."""

import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any, List

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
import torch_model  # noqa: E402

HERE = pathlib.Path(__file__).parent


def profile_of(**options: Any) -> st.Profile:
    sample = torch_model.batches()[0][0][: torch_model.ROWS]
    return st.profile(torch_model.layers(), sample, repeats=3, **options)


def test_profile_has_the_bytes_of_the_layers() -> None:
    profile = profile_of()
    width, rows, middle = torch_model.WIDTH, torch_model.ROWS, 512
    assert len(profile.layers) == 6
    wide = profile.layers[2]
    assert wide.parameters == 2 * width * middle + width + middle
    assert wide.parameter_bytes == 4 * 4 * wide.parameters
    assert wide.output_bytes == wide.input_bytes == 4 * rows * width
    # The input of each product: the layer's own input, and what tanh returns.
    assert wide.saved_bytes == 4 * rows * (width + middle)
    assert profile.layers[0].input_grad_seconds == 0 or profile.layers[1].input_grad_seconds > 0
    assert all(layer.forward_seconds > 0 for layer in profile.layers)
    sgd = profile_of(optimizer="sgd").layers[2]
    assert sgd.parameter_bytes == 2 * 4 * wide.parameters


def test_a_plan_is_for_the_optimizer_of_its_profile() -> None:
    profile = profile_of(optimizer="sgd", model="tanh net")
    profile.plan(devices=2, micro_batches=4, optimizer="sgd")
    with pytest.raises(ValueError) as error:
        profile.plan(devices=2, micro_batches=4, optimizer="adamw")
    assert str(error.value) == (
        "optimizer cannot change what the profile of tanh net was measured for: "
        f"{torch_model.ROWS} samples in fp32 with sgd on cpu; measure again with what wrote it"
    )


def test_a_plan_that_does_not_fit_names_the_model() -> None:
    with pytest.raises(sluice.Infeasible) as error:
        profile_of(model="tanh net").plan(devices=2, micro_batches=4, memory=1000)
    assert error.value.question["model"] == "tanh net" and "/" not in str(error.value)


def test_a_part_of_more_data_counts_as_much_as_a_copy_of_it() -> None:
    whole = torch_model.batches()[0][0]
    rows = torch_model.ROWS
    for part in (whole[:rows], whole[rows : 2 * rows]):
        profiles = [st.profile(torch_model.layers(), each, repeats=1) for each in (part, part.clone())]
        bytes_of_part, bytes_of_copy = ([layer.saved_bytes for layer in p.layers] for p in profiles)
        assert bytes_of_part == bytes_of_copy


def test_each_call_is_timed_once_at_least() -> None:
    repeats: Any
    for repeats in (0, 1.5):
        with pytest.raises(ValueError, match=f"repeats is {repeats}; expected a whole number, at"):
            st.profile(torch_model.layers(), torch_model.batches()[0][0], repeats=repeats)


def test_plan_reads_the_profile() -> None:
    plan = profile_of(loss_fn=lambda out: out.square().mean()).plan(devices=2, micro_batches=4)
    assert [name for stage in plan.stages for name in stage.layer_names] == [
        f"{index} _Wide" for index in range(6)
    ]
    assert plan.timetable is not None and plan.timetable.ranks == 2
    assert plan.lower_bound <= (plan.step_seconds or 0)


def test_a_model_may_have_the_name_that_a_hub_has() -> None:
    plan = profile_of(model="someone/model").plan(devices=2, micro_batches=4)
    assert plan.to_dict()["model"] == "someone/model"


def trained(plan: sluice.Plan, folder: pathlib.Path, frozen: int = 0) -> Any:
    """What torch_run.py writes of two processes that run a plan."""
    folder.mkdir()
    (folder / "plan.json").write_text(plan.to_json())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    out = folder / "out.json"
    processes = [
        subprocess.Popen(
            [sys.executable, str(HERE / "torch_run.py"), str(rank), "2", port]
            + [str(folder / "plan.json"), str(out), str(frozen)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    return json.loads(out.read_text())


@pytest.mark.parametrize("asked", [{"schedule": "1f1b"}, {"schedule": "zbv"}, {}])
def test_trains_to_the_losses_of_one_process(asked: Any, tmp_path: pathlib.Path) -> None:
    plan = profile_of().plan(devices=2, micro_batches=torch_model.MICRO_BATCHES, **asked)
    assert plan.timetable is not None
    losses: List[float] = trained(plan, tmp_path / "run")["losses"]
    assert losses == pytest.approx(torch_model.reference(), rel=1e-6)


# PyTorch's stages give no gradient to what they are sent without one.
@pytest.mark.parametrize("frozen", [2, 3, 5])
@pytest.mark.parametrize(
    ["schedule", "partition"], [("1f1b", "0-2,3-5"), ("zb-h1", "0-2,3-5"), ("zbv", "0-0,1-2,3-4,5-5")]
)
def test_trains_what_is_behind_frozen_stages(
    schedule: str, partition: str, frozen: int, tmp_path: pathlib.Path
) -> None:
    plan = profile_of().plan(
        devices=2, micro_batches=torch_model.MICRO_BATCHES, schedule=schedule, partition=partition
    )
    losses: List[float] = trained(plan, tmp_path / "run", frozen)["losses"]
    assert losses == pytest.approx(torch_model.reference(frozen), rel=1e-6)


@pytest.mark.parametrize(
    ["schedule", "partition"], [("1f1b", "0-2,3-5"), ("zb-h1", "0-2,3-5"), ("zbv", "0-0,1-2,3-4,5-5")]
)
def test_what_a_plan_recomputes_is_computed_once_more(
    schedule: str, partition: str, tmp_path: pathlib.Path
) -> None:
    profile = profile_of()
    runs = [
        trained(
            profile.plan(
                devices=2,
                micro_batches=torch_model.MICRO_BATCHES,
                schedule=schedule,
                partition=partition,
                recompute=recompute,
            ),
            tmp_path / recompute,
        )
        for recompute in ("none", "full")
    ]
    assert runs[0]["losses"] == runs[1]["losses"]
    calls = torch_model.MICRO_BATCHES * (2 if schedule == "zbv" else 3)
    assert [run["forwards"] for run in runs] == [calls, 2 * calls]


def plan_of_one(recompute: str) -> sluice.Plan:
    return profile_of().plan(devices=1, micro_batches=4, recompute=recompute)


@pytest.mark.parametrize("is_divided", [False, True])
def test_a_stage_that_recomputes_has_the_same_gradients(is_divided: bool) -> None:
    from torch.distributed.pipelining import _backward

    gradients, buffers, forwards = [], [], []
    for recompute in ("none", "full"):
        layers = torch_model.layers()
        layers[1] = torch.nn.Sequential(layers[1], torch.nn.Dropout(0.5))
        layers[2] = torch.nn.BatchNorm1d(torch_model.WIDTH)
        layers[3] = torch.nn.Sequential(layers[3], torch.nn.ReLU(inplace=True))
        stage = st.stage_modules(layers, plan_of_one(recompute), 0)[0]
        calls: List[int] = []
        for layer in stage:
            layer.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        torch.manual_seed(7)
        given = torch.randn(torch_model.ROWS, torch_model.WIDTH, requires_grad=True)
        out = stage(given)
        other = torch.rand(3)  # a backward leaves the random numbers that follow as they are
        gradient = torch.ones_like(out)
        if is_divided:
            weights = list(stage.parameters())
            _, groups = _backward.stage_backward_input([out], [gradient], [given], iter(weights))
            _backward.stage_backward_weight(iter(weights), groups)
        else:
            out.backward(gradient)
        gradients.append([given.grad, *(p.grad for p in stage.parameters()), other, torch.rand(3)])
        buffers.append(list(stage.buffers()))
        forwards.append(len(calls))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(*buffers, strict=True))
    assert forwards == [6, 12]


@pytest.mark.parametrize(["recompute", "kept", "most"], [("none", 6, 6), ("full", 0, 1)])
def test_a_stage_that_recomputes_keeps_the_inputs_of_its_layers(
    recompute: str, kept: int, most: int
) -> None:
    from torch.multiprocessing.reductions import StorageWeakRef

    middles: List[StorageWeakRef] = []
    seen: List[int] = []

    def alive() -> int:
        return sum(not middle.expired() for middle in middles)

    layers = []
    for _ in range(6):
        up, tanh, down = torch.nn.Linear(4, 9), torch.nn.Tanh(), torch.nn.Linear(9, 4)
        tanh.register_forward_hook(
            lambda *given: middles.append(StorageWeakRef(given[-1].untyped_storage()))
        )
        up.weight.register_hook(lambda _: seen.append(alive()))
        layers.append(torch.nn.Sequential(up, tanh, down))
    out = st.stage_modules(layers, plan_of_one(recompute), 0)[0](torch.randn(5, 4, requires_grad=True))
    assert alive() == kept
    out.sum().backward()
    assert len(seen) == 6 and max(seen) <= most
    assert alive() == 0


def test_says_why_a_layer_is_not_recomputed() -> None:
    layers = torch_model.layers()
    layers[3] = torch.nn.ReLU(inplace=True)
    stage = st.stage_modules(layers, plan_of_one("full"), 0)[0]
    with pytest.raises(RuntimeError, match="the input of ReLU was changed in place"):
        stage(torch.randn(torch_model.ROWS, torch_model.WIDTH)).sum().backward()
    with pytest.raises(ValueError, match="stage 0 of the plan has recompute 'selective'; .* whole layers"):
        st.stage_modules(torch_model.layers(), plan_of_one("selective"), 0)


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Qwen2", "Qwen3", "Mistral"])
def test_layers_of_a_hugging_face_model_compute_what_it_does(family: str) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=50, num_hidden_layers=3, num_attention_heads=4, hidden_size=32, tie_word_embeddings=False
    )
    if family != "GPT2":
        config.intermediate_size, config.num_key_value_heads, config.head_dim = 48, 2, 8
        config.sliding_window = None
    else:
        config.attn_pdrop = config.resid_pdrop = 0.0
        config.embd_pdrop = 0.5  # the embedding has it
    model = transformers.AutoModelForCausalLM.from_config(config)
    layers = st.layers_of(model)
    assert len(layers) == 5
    ids = torch.randint(50, (2, 7))
    with torch.no_grad():
        for trains in (False, True):
            model.train(trains)
            torch.manual_seed(2)
            got = torch.nn.Sequential(*layers).train(trains)(ids)
            torch.manual_seed(2)
            torch.testing.assert_close(got, model(ids).logits)
    profile = st.profile(layers, ids, loss_fn=lambda out: out.float().mean(), repeats=2)
    assert [layer.input_grad_seconds > 0 for layer in profile.layers] == [False] + [True] * 4
    assert (profile.micro_batch_size, profile.seq) == (2, 7)
    config.tie_word_embeddings = True
    with pytest.raises(ValueError, match="shares the embedding's weights"):
        st.layers_of(model)


def tiny_llama() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(vocab_size=50, num_hidden_layers=2, hidden_size=32)
    config.num_attention_heads, config.num_key_value_heads, config.intermediate_size = 4, 2, 48
    return transformers.AutoModelForCausalLM.from_config(config)


def test_layers_of_a_model_with_adapters_are_those_of_the_model() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(tiny_llama(), peft.LoraConfig(target_modules="all-linear"))
    layers = st.layers_of(model)
    ids = torch.randint(50, (2, 7))
    with torch.no_grad():
        torch.testing.assert_close(torch.nn.Sequential(*layers)(ids), model(ids).logits)
    profile = st.profile(layers, ids, loss_fn=lambda out: out.float().mean(), repeats=1)
    frozen = [layer.parameter_bytes == 4 * layer.parameters for layer in profile.layers]
    assert frozen == [True, False, False, True]
    learned = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    with pytest.raises(ValueError, match="learns a prompt, which is in none of its layers"):
        st.layers_of(peft.get_peft_model(tiny_llama(), learned))


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(ValueError, match=r"LlamaModel is neither .* \(AutoModelForCausalLM\) of the"):
        st.layers_of(tiny_llama().model)


@pytest.mark.parametrize("family", ["Gemma", "Gemma2", "Granite"])
def test_a_model_that_computes_more_between_its_modules_is_refused(family: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{family}Config")(
        vocab_size=50, hidden_size=32, tie_word_embeddings=False
    )
    config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads = 1, 4, 2
    config.head_dim, config.intermediate_size = 8, 48
    model = transformers.AutoModelForCausalLM.from_config(config)
    with pytest.raises(ValueError, match=f"{family}ForCausalLM is neither .* kinds gpt2, llama, mistral"):
        st.layers_of(model)


def test_measuring_changes_nothing() -> None:
    layers = [torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)]
    before = [tensor.clone() for layer in layers for tensor in layer.state_dict().values()]
    sample = torch.randn(5, 4)
    random_state = torch.get_rng_state()
    st.profile(layers, sample, repeats=2)
    after = [tensor for layer in layers for tensor in layer.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert torch.equal(random_state, torch.get_rng_state())
    assert all(p.grad is None for layer in layers for p in layer.parameters())


def test_a_parameter_is_not_divided_among_processes() -> None:
    layers = torch_model.layers()
    plan = profile_of().plan(devices=2, micro_batches=4)
    first, last = plan.stages[0].layer_names[0], plan.stages[-1].layer_names[-1]
    assert (first, last) == ("0 _Wide", "5 _Wide")
    layers[5].down.weight = layers[0].down.weight
    with pytest.raises(ValueError, match="layers 0 and 5 share a parameter, and are on ranks 0 and 1"):
        st.stage_modules(layers, plan, 0)
    one = profile_of().plan(devices=1, micro_batches=4)  # one process may have both
    assert len(st.stage_modules(layers, one, 0)) == 1


def test_the_group_has_the_processes_of_the_plan() -> None:
    plan = profile_of().plan(devices=2, micro_batches=4)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="the plan is for 2 processes, and the group has 1"):
            st.pipeline(torch_model.layers(), plan, loss_fn=torch_model.loss_fn)
    finally:
        torch.distributed.destroy_process_group()


def test_layers_that_work_in_place_are_measured_and_change_nothing() -> None:
    relu = torch.nn.ReLU(inplace=True)
    data = torch.randn(4, 32)
    before = data.clone()
    first, last = torch.nn.Linear(32, 8), torch.nn.Linear(8, 2)
    for layers in (
        [relu, torch.nn.Linear(32, 2)],
        [first, relu, last],
        [first, torch.nn.Sequential(relu, last)],
    ):
        found = st.profile(layers, data, repeats=1)
        assert torch.equal(data, before)
        assert all(layer.input_grad_seconds > 0 for layer in found.layers[1:])


class _Ids(torch.nn.Module):
    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return given.long()


@pytest.mark.parametrize(
    "layers, says",
    [
        ([torch.nn.Linear(9, 8)], "layer 0 Linear does not take the micro-batch: "),
        ([torch.nn.Linear(4, 8), torch.nn.LSTM(8, 8)], "layer 1 LSTM returns a tuple; expected one"),
        ([torch.nn.Linear(4, 8), _Ids()], "layer 1 _Ids returns torch.int64, which has no gradient"),
    ],
)
def test_the_layer_at_fault_is_named(layers: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        st.profile(layers, torch.zeros(2, 4))


def test_profiles_where_gradients_are_switched_off() -> None:
    with torch.no_grad():
        assert profile_of().layers[-1].input_grad_seconds > 0
    with torch.inference_mode(), pytest.raises(ValueError, match="measure outside of it"):
        profile_of()


def test_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="there are no layers"):
        st.profile([], torch.zeros(1, 1))
    with pytest.raises(ValueError, match="layer 1 Linear does not take what"):
        st.profile([torch.nn.Linear(4, 5), torch.nn.Linear(4, 5)], torch.zeros(2, 4))
    with pytest.raises(ValueError, match="neither an nn.Sequential nor"):
        st.layers_of(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="expected 'adamw' or 'sgd'"):
        profile_of(optimizer="lion")
    plan = profile_of().plan(devices=2, micro_batches=4)
    with pytest.raises(ValueError, match="the plan is for 6 layers, and there are 5"):
        st.stage_modules(torch_model.layers()[:5], plan, 0)
    with pytest.raises(sluice.Infeasible):
        profile_of().plan(devices=2, micro_batches=4, memory=1000)
