#!/usr/bin/env python3
"""Compares models/tokens with Hugging Face's `tokenizers`. Exits with 77 where that is not installed.

  hf_tokenizers.py make FOLDER [--text FILE]        trains tokenizers of 23 kinds on FILE (or on the sentences here)
  hf_tokenizers.py compare PROGRAM FOLDER [--texts N] [--seed S] [--kinds A,B]
                                                    ids and decoded text of N random strings per kind; PROGRAM is
                                                    build/release/tests/models/tokens/encode_texts
  hf_tokenizers.py fixtures FOLDER                  writes tests/models/tokens/fixtures anew: small tokenizers, and what
                                                    this library says of some texts

Last run with tokenizers 0.23.3: 50,000 strings of each kind, no difference.
"""

import argparse
import copy
import json
import pathlib
import random
import struct
import subprocess
import sys
import zlib

try:
    import tokenizers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from tokenizers import trainers
except ImportError:
    print("hf_tokenizers: skipped, needs tokenizers")
    sys.exit(77)

SENTENCES = """The tokens of a text are the words that a model reads. A word that it has often seen is one token, and a
word that it has never seen is made of parts: letters, if need be, or bytes. "Isn't that what they'd've said?" we'll ask.
In the year 2024 there were 1,234,567 of them, or 3.14 times as many; x_y = foo_bar(1, 2) + CamelCase\n\n\tindented
    and with spaces before it.\r\nNaïve Ünïcödé straße, Ångström, ﬁne. Ελληνικά κόσμε, русский текст, 中文字符, 日本語テキスト,
한국어, हिन्दी भाषा, العربية, עברית, ไทย, 😀👍🏽👩‍👩‍👧 ½ ²! Repetition repeats; repeated repetitions repeat the repetition.
"""
# Llama 3's expression (GPT-4's), and Qwen 2's.
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
QWEN = GPT4.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPM_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern, behavior, invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def steps(*of):
    return {"type": "Sequence", "pretokenizers": list(of)}


def normal(*of):
    return {"type": "Sequence", "normalizers": list(of)}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def add_tokens(tokenizer):
    """Special tokens, and added ones with every flag."""
    tokenizer.add_special_tokens([AddedToken("<|start|>", special=True),
                                  AddedToken("<|pad|>", special=True, lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("LORD", single_word=True, normalized=True), AddedToken("foo_bar", normalized=False),
                          AddedToken("  ", normalized=False), AddedToken("<strip>", lstrip=True, normalized=True),
                          AddedToken("Ⅷ", rstrip=True, normalized=False),
                          AddedToken("foo", normalized=False, single_word=True),
                          AddedToken("straße", normalized=True, rstrip=True), AddedToken("\n\n", normalized=False)])


def as_json(tokenizer):
    return json.loads(tokenizer.to_str())


def byte_level(corpus, words, normalizer, pre_tokenizer, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=words, initial_alphabet=alphabet,
                                                              show_progress=False))
    return tokenizer


def with_split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated", False),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_fallback(corpus, words):
    """BPE over characters as SentencePiece trains it, with Metaspace."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=words, special_tokens=["<unk>", "<s>", "</s>", *BYTES], show_progress=False, limit_alphabet=300))
    plain = as_json(tokenizer)
    plain["added_tokens"] = plain["added_tokens"][:3]  # the words of bytes are words like others
    tokenizer = Tokenizer.from_str(json.dumps(plain))
    add_tokens(tokenizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.decoder = decoders.Sequence(SPM_DECODER)
    return as_json(tokenizer)


def changed(base, **fields):
    """A copy with other fields; model__x is the field x of the model."""
    copied = copy.deepcopy(base)
    for name, value in fields.items():
        if name.startswith("model__"):
            copied["model"][name[len("model__"):]] = value
        else:
            copied[name] = value
    return copied


def kinds(corpus, words):
    """[name] -> tokenizer.json as a dict."""
    made = {}
    gpt2 = byte_level(corpus, words, None, pre_tokenizers.ByteLevel(add_prefix_space=False))
    gpt2.add_special_tokens(["<|endoftext|>"])
    made["gpt2"] = as_json(gpt2)
    gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    add_tokens(gpt2)
    made["gpt2_prefix"] = as_json(gpt2)

    llama3 = byte_level(corpus, words, None, with_split(GPT4), ignore_merges=True)
    add_tokens(llama3)
    llama3.add_special_tokens(["<|begin_of_text|>"])
    begin = llama3.token_to_id("<|begin_of_text|>")
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    made["llama3"] = as_json(llama3)
    # Without some merges, words of the vocabulary are there that merges do not reach.
    merges = made["llama3"]["model"]["merges"]
    made["llama3_gaps"] = changed(made["llama3"], model__merges=[m for i, m in enumerate(merges) if i % 7])

    qwen2 = byte_level(corpus, words, normalizers.NFC(), with_split(QWEN))
    add_tokens(qwen2)
    made["qwen2"] = as_json(qwen2)
    qwen = made["qwen2"]
    made["smollm"] = changed(qwen, normalizer=None, pre_tokenizer=steps(
        {"type": "Digits", "individual_digits": True}, {**BYTE_LEVEL, "use_regex": True}))
    made["nfd"] = changed(qwen, normalizer={"type": "NFD"})
    made["nfkd"] = changed(qwen, normalizer={"type": "NFKD"})
    made["nfkc_lower"] = changed(qwen, normalizer=normal(
        {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True}))
    made["removed"] = changed(qwen, pre_tokenizer=steps(
        split(r"\s+", "Removed"), split(r"\p{P}", "Contiguous"), split("[aeiou]", "MergedWithPrevious"), BYTE_LEVEL))
    made["next"] = changed(qwen, pre_tokenizer=steps(
        split(" ", "MergedWithNext", kind="String"), split("[0-9]", "Isolated", True), split("x*", "MergedWithNext"),
        {"type": "Digits", "individual_digits": False}, BYTE_LEVEL))
    made["deepseek"] = changed(qwen, pre_tokenizer=steps(
        split(r"[\r\n]", "Isolated"), split("\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+", "Isolated"),
        split("\\s?[!-/:-~！-／：-～‘-‟　-。]+", "Isolated"), split(r"\s+$", "Isolated"),
        split("[一-龥ࠀ-一가-퟿]+", "Isolated"), {"type": "Digits", "individual_digits": True}, BYTE_LEVEL))
    made["o200k"] = changed(qwen, pre_tokenizer=steps(split(O200K, "Isolated"), BYTE_LEVEL))
    made["replace_regex"] = changed(qwen, normalizer=normal(
        replace(r"\s{2,}|^a", "", "Regex"), {"type": "Prepend", "prepend": "_ "}, replace("b+", "BBB", "Regex")))

    spm = byte_fallback(corpus, words)
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    made["metaspace"] = changed(spm, pre_tokenizer=metaspace, decoder=metaspace)
    made["llama2"] = changed(spm, normalizer=normal({"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")),
                             pre_tokenizer=None)
    made["llama2_first"] = changed(spm, pre_tokenizer={**metaspace, "prepend_scheme": "first", "split": False})
    gemma = changed(spm, normalizer=replace(" ", "▁"), pre_tokenizer=split(" ", "MergedWithPrevious", kind="String"))
    gemma["post_processor"]["single"].pop()
    gemma["decoder"]["decoders"].pop()
    made["gemma"] = gemma
    made["strips"] = changed(
        made["llama2_first"], normalizer=normal({"type": "Strip", "strip_left": True, "strip_right": False}),
        decoder={"type": "Sequence", "decoders": [
            {"type": "ByteFallback"}, {"type": "Strip", "content": "▁", "start": 1, "stop": 0},
            {**metaspace, "prepend_scheme": "never"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 2}]})
    # What becomes of characters that the vocabulary does not have.
    made["unk_fused"] = changed(made["metaspace"], model__byte_fallback=False)
    made["unk_each"] = changed(made["unk_fused"], model__fuse_unk=False, pre_tokenizer=None)
    made["unk_dropped"] = changed(made["unk_each"], model__unk_token=None, decoder=None)
    holes = changed(made["metaspace"], pre_tokenizer=None)
    for byte in range(0x90, 0xA0):
        holes["model"]["vocab"][f"no byte {byte}"] = holes["model"]["vocab"].pop(f"<0x{byte:02X}>")
    made["fallback_holes"] = holes
    for name, tokenizer in made.items():
        Tokenizer.from_str(json.dumps(tokenizer))  # it is one
    return made


# First and last code points of blocks to draw characters from.
BLOCKS = [(0x20, 0x7E)] * 3 + [
    (0, 0x1F), (0x80, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x590, 0x5FF), (0x600, 0x6FF),
    (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x21FF),
    (0x2500, 0x27FF), (0x3000, 0x30FF), (0x4E00, 0x9FFE), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF),
    (0xFE00, 0xFFFF), (0x10000, 0x107FF), (0x11000, 0x11FFF), (0x1D100, 0x1D7FF), (0x1F300, 0x1F9FF), (0x1F1E6, 0x1F1FF),
    (0x20000, 0x200FF), (0x31350, 0x3135F), (0xE0000, 0xE00FF), (0x1E000, 0x1EFFF), (0x105C0, 0x105FF), (0x10D40, 0x10D8F),
    (0x10EC0, 0x10F2F)]
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", " \n "]
CURIOSITIES = ["'s", "'T", "'LL", "'re", "'ſ", "don't", "I'Ve", "123", "1234567", "²³", "½", "x_y", "e\u0301", "a\u0323\u0307",
               "\u1100\u1161\u11a8", "ﬁ", "Å", "👩‍👩‍👧", "\U0001F3F4\U000E0067\U000E0062\U000E007F", "ΑΣ", "İI", "_", "▁",
               "▁▁", "<0x41>", "<s>", "\u180e", "\u0085"]


def any_character(draw):
    code = draw.randrange(0x110000 - 0x800)
    return chr(code + 0x800 if code >= 0xD800 else code)


def random_text(draw, text, added):
    parts = []
    for _ in range(draw.randint(0, 6)):
        what = draw.random()
        if what < 0.35:
            start = draw.randrange(max(1, len(text) - 60))
            parts.append(text[start:start + draw.randint(1, 60)])
        elif what < 0.55:
            first, last = draw.choice(BLOCKS)
            parts.append("".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 6))))
        elif what < 0.65:
            parts.append("".join(any_character(draw) for _ in range(draw.randint(1, 4))))
        elif what < 0.8:
            parts.append(draw.choice(added))
        elif what < 0.9:
            parts.append(draw.choice(SPACES) * draw.randint(1, 3))
        elif what < 0.95:
            parts.append(draw.choice(CURIOSITIES))
        else:
            parts.append(draw.choice("aAz ") * draw.randint(1, 30))
    return "".join(parts)


def answers(program, path, texts):
    """What `program` says of each text: ids and decoded text."""
    encoded = [text.encode() for text in texts]
    asked = b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    done = subprocess.run([program, path], input=asked, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr.decode()}")
    at = 0
    for _ in texts:
        count, = struct.unpack_from("<I", done.stdout, at)
        ids = list(struct.unpack_from(f"<{count}i", done.stdout, at + 4))
        at += 4 + 4 * count
        length, = struct.unpack_from("<I", done.stdout, at)
        yield ids, done.stdout[at + 4:at + 4 + length].decode()
        at += 4 + length


def compare_kind(program, path, texts):
    tokenizer = Tokenizer.from_file(str(path))
    differing = 0
    for text, theirs, (ids, decoded) in zip(texts, tokenizer.encode_batch_fast(texts), answers(program, path, texts)):
        expected = tokenizer.decode(theirs.ids, skip_special_tokens=False)
        if ids == theirs.ids and decoded == expected:
            continue
        differing += 1
        if differing <= 3:
            print(f"{path.stem}: {ascii(text)}\n  ids     {ids}\n  theirs  {theirs.ids}\n  text    {ascii(decoded)}"
                  f"\n  theirs  {ascii(expected)}")
    return differing


def compare(options):
    text = pathlib.Path(options.text).read_text() if options.text else SENTENCES * 3
    differing = 0
    for path in sorted(pathlib.Path(options.folder).glob("*.json")):
        if options.kinds and path.stem not in options.kinds.split(","):
            continue
        tokenizer = Tokenizer.from_file(str(path))
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        draw = random.Random(zlib.crc32(path.stem.encode()) + options.seed)
        texts = [random_text(draw, text, added) for _ in range(options.texts)]
        found = compare_kind(options.program, path, texts)
        print(f"{path.stem}: {options.texts:,} texts, {found} differ", flush=True)
        differing += found
    return 1 if differing else 0


def make(options):
    text = pathlib.Path(options.text).read_text() if options.text else ""
    corpus = [text[start:start + 2000] for start in range(0, min(len(text), 300_000), 2000)] + [SENTENCES] * 40
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, tokenizer in kinds(corpus, options.words).items():
        (folder / f"{name}.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    return 0


FIXTURES = ["gpt2", "llama3_gaps", "qwen2", "smollm", "llama2", "llama2_first", "metaspace", "gemma", "unk_each"]
TEXTS = ["", " ", "a", "The tokens of a text are the words.", "Isn't that what they'd've SAID? WE'LL ask.", "2024: 1,234,567!",
         "  two  spaces   three\n\n\n\tand\r\nlines  ", "<|start|>foo foo_bar foo1<|pad|> x  <|pad|>  y LORD LORDS",
         "straße  Ⅷ  <strip>  <strip>Ünïcödé", "e\u0301a\u0323\u0307 \u1100\u1161\u11a8 Å ﬁ ½ ²", "中文字符 日本語テキスト 한국어",
         "हिन्दी العربية עברית ไทย", "😀👍🏽👩‍👩‍👧 \U00020000\U000105C0\u0000\u0007", "<s>▁▁a</s> <0x41> <unk>", "'ſ 'S \u180e\u00a0\u3000x",
         "x_y = foo_bar(1, 2) + CamelCase"]


def fixtures(options):
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    expected = []
    made = kinds([SENTENCES] * 3, 420)
    for name in FIXTURES:
        (folder / f"{name}.json").write_text(json.dumps(made[name], separators=(",", ":")) + "\n")
        tokenizer = Tokenizer.from_str(json.dumps(made[name]))
        for text in TEXTS:
            ids = tokenizer.encode(text).ids
            expected.append({"tokenizer": name, "text": text, "ids": ids,
                             "without_special": tokenizer.encode(text, add_special_tokens=False).ids,
                             "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                             "decoded_without_special": tokenizer.decode(ids, skip_special_tokens=True)})
    lines = ",\n".join(json.dumps(case) for case in expected)
    (folder / "expected.json").write_text(f'{{"tokenizers": "{tokenizers.__version__}", "cases": [\n{lines}\n]}}\n')
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, function in (("make", make), ("compare", compare), ("fixtures", fixtures)):
        command = commands.add_parser(name)
        command.set_defaults(run=function)
        if name == "compare":
            command.add_argument("program")
            command.add_argument("--texts", type=int, default=1000)
            command.add_argument("--seed", type=int, default=0)
            command.add_argument("--kinds")
        command.add_argument("folder")
        command.add_argument("--text", help="a text in UTF-8")
        if name == "make":
            command.add_argument("--words", type=int, default=2500, help="of each vocabulary")
    options = parser.parse_args()
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
