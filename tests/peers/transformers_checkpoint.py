#!/usr/bin/env python3
"""Checks checkpoints against transformers. Exits with 77 where it is not installed.

  make DIR [tied] [shards]   saves a tiny random GPT2LMHeadModel to DIR, in one file or in several
  compare A B                both folders load as GPT2LMHeadModel, with equal weights and logits
"""

import sys

try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError:
    sys.exit(77)


def make(folder, tied, shards):
    torch.manual_seed(1)
    config = GPT2Config(
        n_layer=2, n_embd=24, n_head=3, n_positions=16, vocab_size=50, tie_word_embeddings=tied,
        bos_token_id=None, eos_token_id=None)
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder, max_shard_size="20KB" if shards else "5GB")


def load(folder):
    model, info = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            sys.exit(f"{folder}: {kind}: {info[kind]}")
    return model.eval()


def compare(a, b):
    a, b = load(a), load(b)
    a_state, b_state = a.state_dict(), b.state_dict()
    if a_state.keys() != b_state.keys():
        sys.exit(f"names differ: {a_state.keys() ^ b_state.keys()}")
    for name, value in a_state.items():
        if not torch.equal(value, b_state[name]):
            sys.exit(f"{name} differs")
    tokens = torch.arange(16)[None] * 3 % 50
    with torch.no_grad():
        if not torch.equal(a(tokens).logits, b(tokens).logits):
            sys.exit("logits differ")


if sys.argv[1] == "make":
    make(sys.argv[2], "tied" in sys.argv[3:], "shards" in sys.argv[3:])
else:
    compare(sys.argv[2], sys.argv[3])
