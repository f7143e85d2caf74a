"""Makes models with scripted answers, so that a test knows each step of an agent.

A scripted model is a real GGUF file. The server stores it, starts a runner for it, renders its chat template and samples its
tokens as it does for any model. Only the weights are special. The single layer adds nothing, so the next token depends
only on the last token, and each token of a script has one successor. The template chooses a script from the messages, and
ends the prompt with the control token that starts this script. A constrained answer may leave its script, so tools must
not be strict.
"""

import json

import gguf
import numpy

SIZE = 512  # size of the model's vectors: one axis for each token with a successor
CONTEXT = 1 << 17
PIECE = 12  # min characters of a token, except at the end of a script
END = "<|end|>"
CERTAIN = 4  # weight of a successor; its logit is this times sqrt(SIZE), the others have logit 0


def call_text(name, **arguments):
    """Returns a tool call in the format of the family `hermes`."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def pieces(script, known):
    """Returns the script in pieces that differ from all known pieces, because each token has only one position."""
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
    """Writes a model that answers with the text of the first turn whose condition holds. Turns are pairs of a Jinja condition and a text.

    Conditions can use `messages`, `tools` and `last`, the last message's content. If `thinks`, thoughts are written in <think>.
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
