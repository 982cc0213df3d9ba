#!/usr/bin/env python3
"""Compares sluice with transformers on whole models. Exits with 77 where it is not installed.

  hf_parity.py SLUICE     SLUICE is the program

Checks that transformers gives the logits that `sluice sample --logits` gives (within 1e-4) for

  - models that `sluice train` trained and saved: tied and untied, on one stage and on two;
  - models that transformers made: directly, and after `sluice train --init` has loaded and saved them.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError:
    print("hf_parity: skipped, needs torch and transformers")
    sys.exit(77)

TOLERANCE = 1e-4
SEQ = 48
SHAPE = ["--layers", "2", "--dim", "24", "--heads", "3", "--seq", str(SEQ)]
RUN = ["--micro-batch-size", "2", "--micro-batches", "4", "--no-pin", "--eval-micro-batches", "1"]
PROMPT = "In the beginning God created the heaven"  # its length is no multiple of 16


def sluice(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"sluice {' '.join(map(str, arguments))}: {done.returncode}: {done.stderr}")


def our_logits(folder, work, prompt):
    sluice("sample", "--load", folder, *prompt, "-n", 0, "--logits", work / "logits.json")
    result = json.loads((work / "logits.json").read_text())
    return result["tokens"], torch.tensor(result["logits"])


def load(folder):
    model, info = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            sys.exit(f"{folder}: {kind}: {info[kind]}")
    return model.eval()


def check(what, model, folder, work, prompt=("--prompt", PROMPT)):
    tokens, ours = our_logits(folder, work, prompt)
    with torch.no_grad():
        theirs = model(torch.tensor([tokens])).logits[0]
    if ours.shape != theirs.shape:
        sys.exit(f"{what}: {tuple(ours.shape)} logits, transformers has {tuple(theirs.shape)}")
    difference = (ours - theirs).abs().max().item()
    print(f"{what:<44} largest difference {difference:.1e} of {theirs.abs().max().item():.1f}")
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


def make(folder, tied, vocab):
    config = GPT2Config(n_layer=2, n_embd=24, n_head=3, n_positions=SEQ, vocab_size=vocab,
                        tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None)
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model.eval()


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


def main():
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        text = work / "text"
        text.write_text("".join(f"{n} And the evening and the morning were day {n}.\n" for n in range(200)))
        check_trained(work, text)
        check_made(work, text)


if __name__ == "__main__":
    main()
