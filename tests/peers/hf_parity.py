#!/usr/bin/env python3
"""Compares sluice with transformers and PEFT on whole models. Exits with 77 where transformers is not installed.

  hf_parity.py SLUICE [--large]     SLUICE is the program; with --large also a model of Qwen3-0.6B's shape,
                                    which takes some 8 GB of memory and 4 GB of files

Checks that transformers gives the logits that `sluice sample --logits` gives (within 1e-4) for

  - models that `sluice train` trained and saved: tied and untied, on one stage and on two;
  - models that transformers made: directly, and after `sluice train --init` has loaded and saved them;
    as one file of fp32, bf16 or fp16, and as shards. What sluice saves keeps the folder's tokenizer byte
    for byte, and its config.json field for field but for the type of the weights, which is fp32;
  - small odd models of every other family that trains, with their options on and off; of these it also
    compares the losses of four steps of AdamW (within 1e-4, relative), and the logits of what was saved
    after them.

Where PEFT is installed, also LoRA, on models of most families: an adapter that PEFT made gives PEFT's logits,
merges to PEFT's weights, and trains with PEFT's losses; one that sluice trained, or made, gives the same logits
in PEFT; over a base model of fp32, and of bf16.
"""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
except ImportError:
    print("hf_parity: skipped, needs torch and transformers")
    sys.exit(77)
try:
    import peft
except ImportError:
    peft = None

TOLERANCE = 1e-4
SEQ = 48
SHAPE = ["--layers", "2", "--dim", "24", "--heads", "3", "--seq", str(SEQ)]
RUN = ["--micro-batch-size", "2", "--micro-batches", "4", "--no-pin", "--eval-micro-batches", "1"]
PROMPT = "In the beginning God created the heaven"  # its length is no multiple of 16


def sluice(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"sluice {' '.join(map(str, arguments))}: {done.returncode}: {done.stderr}")
    return done


def our_logits(folder, work, prompt):
    sluice("sample", "--load", folder, *prompt, "-n", 0, "--logits", work / "logits.json")
    result = json.loads((work / "logits.json").read_text())
    return result["tokens"], torch.tensor(result["logits"])


def load(folder):
    # Whatever types transformers finds by itself are those that it is to compute in.
    model, info = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", output_loading_info=True)
    if {parameter.dtype for parameter in model.parameters()} != {torch.float32}:
        sys.exit(f"{folder}: transformers loads it in {model.dtype}, sluice saves fp32")
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            sys.exit(f"{folder}: {kind}: {info[kind]}")
    return model.eval()


def load_as_fp32(folder):
    """Weights of any type. A model that is turned to bf16 and back has lost bits of rope's frequencies, too."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def their_logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0]


def check(what, model, folder, work, prompt=("--prompt", PROMPT)):
    tokens, ours = our_logits(folder, work, prompt)
    theirs = their_logits(model, tokens)
    if ours.shape != theirs.shape:
        sys.exit(f"{what}: {tuple(ours.shape)} logits, transformers has {tuple(theirs.shape)}")
    difference = (ours - theirs).abs().max().item()
    print(f"{what:<58} largest difference {difference:.1e} of {theirs.abs().max().item():.1f}")
    if not difference <= TOLERANCE:
        sys.exit(f"{what}: logits differ by {difference}, more than {TOLERANCE}")


def check_trained(work, text):
    for tied in (False, True):
        for stages in (1, 2):
            name = f"{'tied' if tied else 'untied'}, {stages} stage{'s' * (stages > 1)}"
            out = work / f"trained-{tied}-{stages}"
            sluice("train", "--data", text, *SHAPE, *RUN, "--stages", stages, "--steps", 30, "--lr", "1e-2",
                   "--save", out, *["--tied"] * tied)
            check(f"trained by sluice, {name}", load(out / "latest"), out, work)


def make(folder, tied, vocab, dtype=torch.float32, shard_size="5GB"):
    config = GPT2Config(n_layer=2, n_embd=24, n_head=3, n_positions=SEQ, vocab_size=vocab,
                        tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None)
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard_size)
    return model.float().eval()


def check_made(work, text):
    torch.manual_seed(1)
    for tied in (False, True):
        name = "tied" if tied else "untied"
        folder, out = work / f"made-{tied}", work / f"taken-{tied}"
        model = make(folder, tied, vocab=256)
        check(f"made by transformers, {name}", model, folder, work)
        sluice("train", "--data", text, "--model", folder / "config.json", "--init", folder, *RUN,
               "--stages", 3, "--steps", 0, "--save", out)
        check(f"made by transformers, taken by --init, {name}", model, out, work)
        check(f"... and loaded by transformers, {name}", load(out / "latest"), out, work)
    folder = work / "words"  # of a vocabulary that is not bytes
    model = make(folder, tied=True, vocab=1000)
    check("made by transformers, 1000 tokens", model, folder, work, ("--tokens", "999,3,500,0,7"))


SIZES = dict(vocab_size=256, num_hidden_layers=3, hidden_size=20, intermediate_size=28, num_attention_heads=4,
             num_key_value_heads=2, head_dim=6, max_position_embeddings=SEQ, bos_token_id=None, eos_token_id=None,
             pad_token_id=None)
WINDOW_OF_TWO = ["sliding_attention", "sliding_attention", "full_attention"]


def rope(kind, theta, factor, **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, factor=factor, **more))


# What is checked: transformers' classes, and what differs from SIZES.
FAMILIES = {
    "llama": ("Llama", {}),
    "llama, all biases, tied": ("Llama", dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                              num_key_value_heads=4)),
    "llama, rope of llama3": ("Llama", rope("llama3", 500.0, 8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                            original_max_position_embeddings=24)),
    "llama, linear rope": ("Llama", rope("linear", 1000.0, 2.0)),
    "llama, yarn": ("Llama", rope("yarn", 1000.0, 4.0, original_max_position_embeddings=12)),
    "mistral": ("Mistral", dict(sliding_window=None)),
    "mistral, window": ("Mistral", dict(sliding_window=7)),
    "qwen2, tied": ("Qwen2", dict(num_attention_heads=5, num_key_value_heads=1, hidden_size=30,
                                  tie_word_embeddings=True)),
    "qwen2, window in some blocks": ("Qwen2", dict(hidden_size=24, use_sliding_window=True, sliding_window=5,
                                                   max_window_layers=1)),
    "qwen3": ("Qwen3", {}),
    "qwen3, biases, tied": ("Qwen3", dict(attention_bias=True, tie_word_embeddings=True)),
    "gemma": ("Gemma", {}),
    "gemma2": ("Gemma2", dict(final_logit_softcapping=5.0, attn_logit_softcapping=4.0, sliding_window=9)),
    "gemma2, cap over scores": ("Gemma2", dict(final_logit_softcapping=None, sliding_window=9,
                                               query_pre_attn_scalar=11)),
    "gemma2, no caps": ("Gemma2", dict(final_logit_softcapping=None, attn_logit_softcapping=None,
                                       sliding_window=SEQ)),
    "gemma3": ("Gemma3", dict(sliding_window=9, layer_types=WINDOW_OF_TWO)),
}
PERIOD = 24  # of the text that is trained on, and the length of its windows: all are alike
STEPS = 4


def make_family(family, changes, folder):
    config = getattr(transformers, family + ("Text" if family == "Gemma3" else "") + "Config")
    model = getattr(transformers, family + "ForCausalLM")(config(**{**SIZES, **changes}, attn_implementation="eager"))
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2)
        if "norm" in name and not family.startswith("Gemma"):
            parameter.data += 1
    model.to(torch.bfloat16).save_pretrained(folder)
    return load_as_fp32(folder)


def make_period(work):
    period = torch.randint(0, 256, (PERIOD,)).tolist()
    (work / "period").write_bytes(bytes(period) * 60)
    return period


def our_losses(folder, work, saved, *more, steps=STEPS):
    out = sluice("train", "--model", folder / "config.json", "--init", folder, "--data", work / "period", "--bytes",
                 "--seq", PERIOD, "--micro-batch-size", 2, "--micro-batches", 1, "--steps", steps, "--lr", "1e-2",
                 "--weight-decay", "0.1", "--clip", 0, "--warmup", 0, "--lr-schedule", "constant", "--stages", 2,
                 "--no-pin", "--eval-micro-batches", 1, "--save", saved, "--json", *more).stdout
    return [json.loads(line)["loss"] for line in out.splitlines() if '"loss"' in line][:steps]


def their_losses(model, period, first):
    def loss(shift):
        turned = period[shift:] + period[:shift]
        tokens, targets = torch.tensor([turned]), torch.tensor(turned[1:] + turned[:1])
        return torch.nn.functional.cross_entropy(model(tokens).logits[0], targets)

    # An epoch's windows begin at an offset that the seed decides: that of the first loss.
    with torch.no_grad():
        shift = min(range(PERIOD), key=lambda s: abs(loss(s).item() - first))
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0)],
                                  lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(STEPS):
        value = loss(shift)
        losses.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return losses


def check_losses(name, model, period, ours, tolerance=TOLERANCE):
    theirs = their_losses(model, period, ours[0])
    difference = max(abs(a / b - 1) for a, b in zip(ours, theirs))
    print(f"{name + ', trained':<58} largest difference {difference:.1e} of {theirs[-1]:.1f}")
    if not difference <= tolerance:
        sys.exit(f"{name}: losses are {ours}, transformers has {theirs}")
    return theirs


def check_config(given, saved):
    fields = json.loads((given / "config.json").read_text())
    fields["dtype"] = "float32"
    if json.loads((saved / "config.json").read_text()) != fields:
        sys.exit(f"{saved}/config.json: not the fields of {given}")


def check_large(work):
    torch.manual_seed(1)
    config = transformers.Qwen3Config(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=64, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=1e6), attn_implementation="eager")
    model = transformers.Qwen3ForCausalLM(config)
    model.to(torch.bfloat16).save_pretrained(work / "large")
    tokens = torch.randint(0, 151936, (13,)).tolist()
    check("qwen3-0.6b's shape", model.float().eval(), work / "large", work, ("--tokens", ",".join(map(str, tokens))))


def check_families(work):
    torch.manual_seed(1)
    period = make_period(work)
    prompt = ",".join(map(str, torch.randint(0, 256, (41,)).tolist()))
    for name, (family, changes) in FAMILIES.items():
        folder = work / name.replace(" ", "-")
        model = make_family(family, changes, folder)
        check(name, model, folder, work, ("--tokens", prompt))
        saved = work / (folder.name + "-saved")
        check_losses(name, model, period, our_losses(folder, work, saved))
        check(f"{name}, saved", load(saved / "latest"), saved, work, ("--tokens", prompt))
        check_config(folder, saved / "latest")


# What is checked of LoRA: a model (GPT-2, or of FAMILIES), and what differs from an adapter of rank 5 beside every map.
Q_AND_V = dict(target_modules=["q_proj", "v_proj"])
LORAS = {
    "gpt2": ("gpt2", {}),
    "gpt2, c_proj, rslora": ("gpt2", dict(target_modules=["c_proj"], use_rslora=True)),  # two maps of each block
    "llama": ("llama", {}),
    "llama, q and v": ("llama", Q_AND_V),
    "llama, rslora": ("llama", dict(use_rslora=True)),
    "llama, a pattern": ("llama", dict(target_modules=r"model\.layers\.[02]\.mlp\.(up|down)_proj")),
    "llama, all biases, tied": ("llama, all biases, tied", {}),
    "mistral, window": ("mistral, window", {}),
    "qwen2, tied": ("qwen2, tied", {}),
    "qwen2, q and v, rslora": ("qwen2, window in some blocks", dict(use_rslora=True, **Q_AND_V)),
    "qwen3": ("qwen3", {}),
    "qwen3, rank 64": ("qwen3, biases, tied", dict(r=64)),  # more than its maps have
    "gemma, k and down": ("gemma", dict(target_modules=["k_proj", "down_proj"])),
    "gemma2": ("gemma2", {}),
    "gemma3": ("gemma3", {}),
}
OF_BF16 = ["gpt2", "llama", "qwen2, tied", "gemma2"]  # of these also with a base model's folder of bf16
WEIGHTS = 1e-5  # largest difference of merged weights, which are of size 1
HALF_BIT = 2.0 ** -8  # what rounding to bf16 changes at most, relative
# Losses in bf16, relative. The first is of one forward; after it, Adam's first steps are of the size of the learning rate
# even where rounding decides a gradient's sign. PyTorch's autocast differs from fp32 by up to 8e-4, and then 4e-2.
BF16_FIRST_LOSS, BF16_LOSS = 2.0 ** -8, 5e-2


def largest(ours, theirs):
    return (ours - theirs).abs().max().item()


def load_adapter(base, folder, **options):
    return peft.PeftModel.from_pretrained(copy.deepcopy(base), folder, **options).eval()


class LoraCheck:
    """A small base model in a folder of `dtype`, an adapter of it that PEFT made, and the checks of both."""

    def __init__(self, work, name, family, changes, dtype=torch.float32):
        torch.manual_seed(2)
        self.name = "lora, " + name
        self.work = pathlib.Path(tempfile.mkdtemp(dir=work))
        self.folder, self.adapter = self.work / "base", self.work / "adapter"
        self.base = self.make_base(family, dtype)
        self.model = self.make_adapter(changes)
        self.period = make_period(self.work)
        self.prompt = torch.randint(0, 256, (41,)).tolist()
        self.tokens = ("--tokens", ",".join(map(str, self.prompt)))

    def make_base(self, family, dtype):
        base = make(self.folder, True, vocab=256) if family == "gpt2" else make_family(*FAMILIES[family], self.folder)
        for parameter in base.parameters():
            parameter.data *= 1.1  # so that they aren't all values of bf16
        base.to(dtype).save_pretrained(self.folder)
        return load_as_fp32(self.folder)

    def make_adapter(self, changes):
        config = dict(r=5, lora_alpha=7, target_modules="all-linear", task_type="CAUSAL_LM")
        model = peft.get_peft_model(copy.deepcopy(self.base), peft.LoraConfig(**{**config, **changes}))
        for parameter in model.parameters():
            if parameter.requires_grad:  # PEFT begins with B = 0, which adds nothing
                torch.nn.init.normal_(parameter, std=0.2)
        model.save_pretrained(self.adapter, save_embedding_layers=False)
        return model.eval()

    def check_logits(self):
        if largest(their_logits(self.model, self.prompt), their_logits(self.base, self.prompt)) < 0.1:
            sys.exit(f"{self.name}: the adapter changes next to nothing, so nothing would be checked")
        check(self.name, self.model, self.folder, self.work, (*self.tokens, "--adapter", self.adapter))

    def merge(self):
        """sluice's merged model as transformers loads it, in fp32, and PEFT's."""
        sluice("merge", "--load", self.folder, "--adapter", self.adapter, "-o", self.work / "merged")
        return load_as_fp32(self.work / "merged"), copy.deepcopy(self.model).merge_and_unload()

    def check_weights(self, ours, theirs, rounding=0.0):
        ours, theirs = ours.state_dict(), theirs.state_dict()
        if ours.keys() != theirs.keys():
            sys.exit(f"{self.name}: merged weights are {sorted(ours)}, PEFT has {sorted(theirs)}")
        for name, weight in theirs.items():
            if not ((ours[name] - weight).abs() <= WEIGHTS + rounding * weight.abs()).all():
                sys.exit(f"{self.name}: merged {name} differs by {largest(ours[name], weight)} from PEFT's")
        difference = max(largest(ours[name], theirs[name]) for name in ours)
        print(f"{self.name + ', merged weights':<58} largest difference {difference:.1e}")

    def check_merged(self):
        ours, theirs = self.merge()
        self.check_weights(ours, theirs)
        check(f"{self.name}, merged", self.model, self.work / "merged", self.work, self.tokens)
        check(f"{self.name}, merged, loaded", ours, self.folder, self.work,
              (*self.tokens, "--adapter", self.adapter))

    def check_merged_to_bf16(self):
        """Each weight is rounded once, so the logits change about as much as those of PEFT's weights, rounded once."""
        ours, theirs = self.merge()
        self.check_weights(ours, theirs, HALF_BIT)
        exact = their_logits(self.model, self.prompt)
        for parameter in theirs.parameters():
            parameter.data = parameter.data.bfloat16().float()
        rounded = their_logits(theirs, self.prompt)
        difference, expected = largest(their_logits(ours, self.prompt), exact), largest(rounded, exact)
        print(f"{self.name + ', merged':<58} largest difference {difference:.1e}, rounding's {expected:.1e}")
        if not difference <= 2 * expected:
            sys.exit(f"{self.name}, merged: logits differ by {difference}, rounding changes them by {expected}")

    def check_saved(self, what, saved):
        model = load_adapter(self.base, saved / "latest")
        check(f"{self.name}, {what}", model, self.folder, self.work, (*self.tokens, "--adapter", saved))
        whole = load_as_fp32(saved / "latest")  # the base model's folder, and the adapter beside it
        if not torch.equal(their_logits(whole, self.prompt), their_logits(model, self.prompt)):
            sys.exit(f"{self.name}, {what}: transformers loads the folder with other logits")

    def check_trained(self):
        saved = self.work / "trained"
        losses = our_losses(self.folder, self.work, saved, "--adapter", self.adapter)
        check_losses(self.name, copy.deepcopy(self.model), self.period, losses)
        self.check_saved("trained, in PEFT", saved)

    def check_trained_in_bf16(self):
        saved = self.work / "trained-bf16"
        losses = our_losses(self.folder, self.work, saved, "--adapter", self.adapter, "--dtype", "bf16")
        name = f"{self.name}, --dtype bf16"
        theirs = check_losses(name, copy.deepcopy(self.model), self.period, losses, BF16_LOSS)
        if not abs(losses[0] / theirs[0] - 1) <= BF16_FIRST_LOSS:
            sys.exit(f"{name}: the first loss is {losses[0]}, PEFT has {theirs[0]}")
        self.check_saved("trained in bf16, in PEFT", saved)

    def check_fresh(self):
        """An adapter that sluice begins adds nothing, and PEFT trains it as sluice does."""
        config = self.model.peft_config["default"]
        if isinstance(config.target_modules, str):
            return  # --lora takes no regular expression
        lora = f"r={config.r},alpha={config.lora_alpha},rslora={int(config.use_rslora)},targets="
        flags = ("--lora", lora + ",".join(sorted(config.target_modules)))
        begun, saved = self.work / "begun", self.work / "fresh"
        our_losses(self.folder, self.work, begun, *flags, steps=0)
        check(f"{self.name}, fresh", self.base, self.folder, self.work, (*self.tokens, "--adapter", begun))
        model = load_adapter(self.base, begun / "latest", is_trainable=True)
        check_losses(f"{self.name}, fresh", model, self.period, our_losses(self.folder, self.work, saved, *flags))
        self.check_saved("fresh, trained, in PEFT", saved)


def check_loras(work):
    if peft is None:
        print("LoRA: skipped, needs peft")
        return
    for name, (family, changes) in LORAS.items():
        of = LoraCheck(work, name, family, changes)
        of.check_logits()
        of.check_merged()
        of.check_trained()
        of.check_fresh()
    for family in OF_BF16:
        of = LoraCheck(work, family + ", of bf16", family, {}, torch.bfloat16)
        of.check_logits()
        of.check_merged_to_bf16()
        of.check_trained()
        of.check_trained_in_bf16()


def bytes_as_words():
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={word: id for id, word in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    return tokenizer.to_str()


def check_folders(work, text):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for shard_size in ("5GB", "20KB"):
            name = f"{str(dtype).removeprefix('torch.')}, shards of {shard_size}"
            folder, out = work / f"folder-{name}", work / f"saved-{name}"
            model = make(folder, tied=True, vocab=256, dtype=dtype, shard_size=shard_size)
            if (folder / "model.safetensors.index.json").exists() != (shard_size != "5GB"):
                sys.exit(f"{folder}: not in the files that were asked for")
            kept = {"tokenizer.json": bytes_as_words().encode(), "merges.txt": b"#version: 0.2\n\xff"}
            for file, content in kept.items():
                (folder / file).write_bytes(content)
            check(f"folder, {name}", model, folder, work)
            sluice("train", "--data", text, "--bytes", "--model", folder, "--init", folder, *RUN, "--stages", 2,
                   "--steps", 2, "--save", out)
            check(f"... trained and loaded, {name}", load(out / "latest"), out, work)
            sluice("train", "--data", text, "--bytes", "--model", folder, *RUN, "--steps", 4, "--resume", out, "--save", out)
            for file, content in kept.items():
                if (out / "latest" / file).read_bytes() != content:
                    sys.exit(f"{out}: {file} is not what {folder} had")
            check_config(folder, out / "latest")


def main():
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        text = work / "text"
        text.write_text("".join(f"{n} And the evening and the morning were day {n}.\n" for n in range(200)))
        check_trained(work, text)
        check_made(work, text)
        check_folders(work, text)
        check_families(work)
        check_loras(work)
        if "--large" in sys.argv[2:]:
            check_large(work)


if __name__ == "__main__":
    main()
