#!/usr/bin/env python3
"""Compares `sluice tokenize --chat` with transformers' apply_chat_template.

Makes a byte-level tokenizer with the special tokens of each family, writes it with the family's template
to a folder, and compares the tokens of random conversations; of the masks it checks that the words of
the assistant, and only they with what ends a turn, count.

    python3 tests/peers/hf_chat_templates.py build/release/tools/sluice
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
LLAMA31 = """{{- bos_token }}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
MISTRAL = (
    "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}"
    "{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}\n\n"
    "{{- bos_token }}\n{%- for message in loop_messages %}\n"
    "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n"
    "        {{- raise_exception('roles must alternate') }}\n    {%- endif %}\n"
    "    {%- if message['role'] == 'user' %}\n"
    "        {%- if loop.first and system_message is defined %}\n"
    "            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}\n"
    "        {%- else %}\n            {{- ' [INST] ' + message['content'] + ' [/INST]' }}\n        {%- endif %}\n"
    "    {%- elif message['role'] == 'assistant' %}\n"
    "        {{- ' ' + message['content'] + eos_token}}\n    {%- endif %}\n{%- endfor %}\n")
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
MARKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}")
FAMILIES = {  # template, special tokens, bos, eos, what ends a turn, whether a system message may come first
    "chatml": (CHATML, ["<|im_start|>", "<|im_end|>"], None, "<|im_end|>", "<|im_end|>", True),
    "qwen3": (QWEN, ["<|im_start|>", "<|im_end|>"], None, "<|im_end|>", "<|im_end|>", True),
    "llama3": (LLAMA3, ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"],
               "<|begin_of_text|>", "<|eot_id|>", "<|eot_id|>", True),
    "llama3.1": (LLAMA31, ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"],
                 "<|begin_of_text|>", "<|eot_id|>", "<|eot_id|>", True),
    "gemma": (GEMMA, ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"], "<bos>", "<eos>", "<end_of_turn>", False),
    "mistral": (MISTRAL, ["<s>", "</s>"], "<s>", "</s>", "</s>", True),
    "zephyr": (ZEPHYR, ["<s>", "</s>"], "<s>", "</s>", "</s>", True),
    "marked": (MARKED, ["<|im_start|>", "<|im_end|>"], None, "<|im_end|>", "<|im_end|>", True),
}
WORDS = ["the", "Lord", "and", " ", "\n", "\n\n", "é", "日本", "1", "23", "...", "'s", "'", "{{", "%}", "  x", "😀", "\u00a0", "a,b"]


def write_folder(folder, family):
    template, special, bos, eos, _, _ = FAMILIES[family]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    draw = random.Random(0)
    tokenizer.train_from_iterator((text(draw) for _ in range(2000)), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos)
    fast.chat_template = template
    fast.save_pretrained(folder)
    return fast


def text(draw):
    return "".join(draw.choice(WORDS) for _ in range(draw.randint(1, 20)))


def conversation(draw, system):
    messages = [{"role": "system", "content": text(draw)}] if system and draw.random() < 0.5 else []
    for _ in range(draw.randint(1, 4)):
        messages += [{"role": "user", "content": text(draw)}, {"role": "assistant", "content": text(draw)}]
        if draw.random() < 0.3:  # Qwen3's template writes it in the last turn; the others do not look at it
            messages[-1][draw.choice(["reasoning_content", "reasoning", "thinking"])] = text(draw)
    return messages


def value(draw, depth=0):
    kind = draw.randrange(9 if depth < 3 else 7)
    if kind < 7:
        number = draw.choice([1, -1]) * draw.random() * 10.0 ** draw.randint(-12, 22)
        return [text(draw), draw.randint(-10**15, 10**15), number, float(round(number)), True, None, "\x00\x1f\x7f\"\\/\u2028"][kind]
    if kind == 7:
        return [value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return arguments(draw, depth)


def arguments(draw, depth=0):
    return {draw.choice("zyxab") + text(draw): value(draw, depth + 1) for _ in range(draw.randint(0, 3))}


def with_tools(draw, messages):
    """Some of the answers call tools first; and what tools there are."""
    result = []
    for message in messages:
        if message["role"] == "assistant" and draw.random() < 0.5:
            call = {"type": "function", "function": {"name": "f", "arguments": arguments(draw)}}
            silent = draw.choice([{}, {"content": None}, {"content": text(draw)}])
            result += [{"role": "assistant", **silent, "tool_calls": [call]}, {"role": "tool", "name": "f", "content": text(draw)}]
        result.append(message)
    tools = [{"type": "function", "function": {"name": "f", "parameters": arguments(draw)}} for _ in range(draw.randint(1, 3))]
    return result, draw.choice([None, tools])


def expected_turns(messages, family):
    """What the assistant's counted text ends with, for each of its turns."""
    return [None if "tool_calls" in m else m["content"].strip() for m in messages if m["role"] == "assistant"], FAMILIES[family][4]


def check_mask(fast, tokens, mask, messages, family):
    words, end = expected_turns(messages, family)
    end_id = fast.convert_tokens_to_ids(end)
    runs, run = [], []
    for token, counts in zip(tokens, mask):
        if counts:
            run.append(token)
        elif run:
            runs.append(run)
            run = []
    runs += [run] if run else []
    assert len(runs) == len(words), (family, len(runs), len(words))
    for run, word in zip(runs, words):
        assert run[-1] == end_id, (family, run)
        if word is None:  # calls of tools
            assert '{"name": "f", ' in fast.decode(run), (family, run)
            continue
        got = fast.decode(run[:-1]).strip()
        assert got.endswith(word), (family, got, word)
        allowed = got[: len(got) - len(word)].strip()
        assert allowed == "" or allowed.startswith("<think>\n") and allowed.endswith("</think>"), (family, got, word)


def main():
    sluice, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            fast = write_folder(folder, family)
            draw = random.Random(1)
            chats = [(conversation(draw, FAMILIES[family][5]), None) for _ in range(count)]
            if family in ("qwen3", "llama3.1"):
                chats += [with_tools(draw, conversation(draw, True)) for _ in range(count)]
            data = folder / "chats.jsonl"
            data.write_text("".join(
                json.dumps({"messages": chat, **({"tools": draw.choice([tools, json.dumps(tools)])} if tools else {})}) + "\n"
                for chat, tools in chats))
            out = subprocess.run([sluice, "tokenize", "--tokenizer", str(folder), "--data", str(data), "--chat", "--json"],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout
            documents = json.loads(out)["documents"]
            assert len(documents) == len(chats)
            for document, (chat, tools) in zip(documents, chats):
                ids = fast.apply_chat_template(chat, tools=tools, tokenize=True, return_dict=False)
                assert document["tokens"] == list(ids), (family, chat, fast.apply_chat_template(chat, tools=tools, tokenize=False))
                if family == "marked":
                    masks = fast.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
                    assert document["mask"] == list(masks["assistant_masks"]), (family, chat)
                check_mask(fast, document["tokens"], document["mask"], chat, family)
        print(f"{family}: {len(chats)} conversations, equal")


if __name__ == "__main__":
    main()
