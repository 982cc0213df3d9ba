#!/usr/bin/env python3
"""Checks what is written of a config.json against transformers. Exits with 77 where it is not
installed.

  DIR   of each NAME.json there, NAME.written.json describes the same model: every field of
        transformers' configuration is equal, but for those that are not computed with
"""

import json
import pathlib
import sys

try:
    from transformers import AutoConfig, logging
except ImportError:
    sys.exit(77)

# Ids of special tokens, and what says where a file comes from or how it runs.
NOT_COMPUTED = {
    "architectures", "bos_token_id", "eos_token_id", "pad_token_id", "dtype", "torch_dtype",
    "transformers_version", "use_cache", "_name_or_path", "attention_dropout", "embd_pdrop",
    "attn_pdrop", "resid_pdrop", "n_ctx", "max_window_layers", "sliding_window_pattern",
    "_sliding_window_pattern", "rope_theta", "rope_scaling", "rope_local_base_freq",
    "pretraining_tp",
    "output_hidden_states", "output_attentions", "id2label", "label2id", "task_specific_params",
    "is_encoder_decoder", "chunk_size_feed_forward", "return_dict", "problem_type"}
SAME_FUNCTION = {"gelu_new": "gelu_pytorch_tanh", "swish": "silu"}
# What transformers fills in itself, and reads only beside the other.
ROPE_DEFAULTS = {"beta_fast": 32, "beta_slow": 1, "truncate": True, "type": None}


def rope(fields, max_seq):
    if fields is None:
        return None
    if any(isinstance(value, dict) for value in fields.values()):
        return {kind: rope(part, max_seq) for kind, part in fields.items()}
    kind = fields["rope_type"]
    read = {"default": [], "linear": ["factor"],
            "llama3": ["factor", "low_freq_factor", "high_freq_factor"],
            "yarn": ["factor", "beta_fast", "beta_slow", "attention_factor", "mscale",
                     "mscale_all_dim", "truncate"]}[kind]
    found = {name: fields.get(name, ROPE_DEFAULTS.get(name)) for name in read}
    if kind in ("llama3", "yarn"):
        found["original"] = fields.get("original_max_position_embeddings", max_seq)
    return {"rope_type": kind, "rope_theta": fields["rope_theta"], **found}


def computed(path):
    config = AutoConfig.for_model(**json.loads(path.read_text())).to_dict()
    found = {name: value for name, value in config.items() if name not in NOT_COMPUTED}
    for name, value in found.items():
        if isinstance(value, str):
            found[name] = SAME_FUNCTION.get(value, value)
    heads = found.get("num_attention_heads")
    if heads:
        if found.get("head_dim") is None:
            found["head_dim"] = found["hidden_size"] // heads
        found["rope_parameters"] = rope(found["rope_parameters"],
                                        found["max_position_embeddings"])
    found["use_bidirectional_attention"] = found.get("use_bidirectional_attention") or None
    # Of blocks that are not there.
    if "sliding_attention" not in found.get("layer_types", ["sliding_attention"]):
        found.update(sliding_window=None, use_sliding_window=False)
        if found["model_type"] == "gemma3_text":
            found["rope_parameters"]["sliding_attention"] = None
    return found


logging.set_verbosity_error()
failed = False
for original in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    if original.name.endswith(".written.json"):
        continue
    theirs, ours = computed(original), computed(original.with_suffix(".written.json"))
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            print(f"{original.name}: {name} is {theirs.get(name)}, written {ours.get(name)}",
                  file=sys.stderr)
            failed = True
sys.exit(1 if failed else 0)
