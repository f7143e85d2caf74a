"""Models whose answers a test has written, so that each step of an agent can be told beforehand.

A scripted model is a real GGUF file. The server stores it, starts a runner for it, renders its chat template and samples its
tokens as it does for any model. Only the weights are made by hand: the one layer adds nothing, so what comes next depends on
the last token alone, and each token of a script has one successor. The template ends the prompt with the control token
that begins the right script, and it looks at the messages to choose. An answer that is held to a form does not follow its
script to the end, so tools are not to be strict.
"""

import json

import gguf
import numpy

SIZE = 512  # of the model's vectors: an axis for each token that has a successor
CONTEXT = 1 << 17
PIECE = 12  # characters that a token has at least, of a script that goes on
END = "<|end|>"
CERTAIN = 4  # weight of a successor: times the root of SIZE, this is its logit, and 0 is that of the others


def call_text(name, **arguments):
    """How models of the family `hermes` call a tool."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def pieces(script, known):
    """The script in pieces that differ from all that are known, as a token stands for one place only."""
    start = 0
    while start < len(script):
        end = start + PIECE
        while len(script) - end < PIECE and end < len(script) or script[start:end] in known:
            end += 1
            assert end <= len(script) + 1, f"{script!r} ends like another script"
        known.add(script[start:end])
        yield script[start:end]
        start = end


def write_scripted_model(path, turns, thinks=False):
    """A model that says the text of the first turn whose condition holds; turns are pairs of a condition of Jinja and a text.

    Conditions see `messages`, `tools` and `last`, the last message's content. A model that thinks writes its thoughts in <think>.
    """
    tokens = ["<unk>", "<|begin|>", END, *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    successors, known = {}, set()
    template = ["{%- set last = messages[-1].content | string %}{{- '<|begin|>' }}",
                "{%- for message in messages %}{{- message.role + ': ' + (message.content | string)[-200:] + '\n' }}{% endfor %}",
                "{#- Calls are written in <tool_call>, their results are messages of the role 'tool'. #}",
                *(["{#- Thoughts are written in <think> and </think>. #}"] if thinks else [])]
    for i, (condition, script) in enumerate(turns):
        begin = f"<|script {i}|>"
        chain = [begin, *pieces(script, known)]
        tokens += chain
        kinds += [gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(chain) - 1)
        successors |= dict(zip(chain, [*chain[1:], END], strict=True))
        template.append("{%- " + ("if " if i == 0 else "elif ") + condition + " %}{{- '" + begin + "' }}")
    template.append("{%- endif %}")
    assert len(successors) <= SIZE, "the scripts are too long"
    ids = {token: index for index, token in enumerate(tokens)}
    embeddings = numpy.zeros((len(tokens), SIZE), numpy.float32)
    outputs = numpy.zeros((len(tokens), SIZE), numpy.float32)
    for axis, (token, successor) in enumerate(successors.items()):
        embeddings[ids[token], axis] = 1
        outputs[ids[successor], axis] = CERTAIN

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Scripted")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(SIZE)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(32)
    writer.add_value_length(32)
    writer.add_rope_dimension_count(32)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template("\n".join(template))
    shapes = {"attn_q": (32, SIZE), "attn_k": (32, SIZE), "attn_v": (32, SIZE), "attn_output": (SIZE, 32),
              "ffn_gate": (32, SIZE), "ffn_up": (32, SIZE), "ffn_down": (SIZE, 32)}
    writer.add_tensor("token_embd.weight", embeddings)
    writer.add_tensor("output.weight", outputs)
    writer.add_tensor("output_norm.weight", numpy.ones(SIZE, numpy.float32))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", numpy.ones(SIZE, numpy.float32))
    for name, shape in shapes.items():
        writer.add_tensor(f"blk.0.{name}.weight", numpy.zeros(shape, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
