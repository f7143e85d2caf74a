"""Makes one file of a text model and its projector, as Ollama's converter names things. For tests.

The sources are convert/convert_*.go of Ollama and what its llama/compat says about older files.
"""

import copy
import re
import struct

from gguf_file import ARRAY, BOOL, BYTES, FLOAT, STRING, U32, Tensor

I32 = 5
MATRICES = ("attn_q", "attn_k", "attn_v")
# Names of tensors: a part of the projector's name, and Ollama's.
GEMMA3 = (("v.patch_embd", "v.patch_embedding"), ("v.position_embd", "v.position_embedding"), ("v.post_ln", "v.post_layernorm"),
          (".ln1.", ".layer_norm1."), (".ln2.", ".layer_norm2."), (".attn_out.", ".attn_output."), (".ffn_up.", ".mlp.fc1."),
          (".ffn_down.", ".mlp.fc2."), ("mm.input_projection", "mm.mm_input_projection"), ("mm.soft_emb_norm", "mm.mm_soft_emb_norm"))
QWEN25 = (("v.patch_embd.weight.1", "v.patch_embd_1.weight"), ("v.patch_embd.weight", "v.patch_embd_0.weight"),
          ("v.post_ln", "v.merger.ln_q"), ("mm.", "v.merger.mlp."))
QWEN3_OLD = (("v.patch_embd", "v.patch_embed"), ("v.position_embd", "v.pos_embed"), ("v.post_ln", "v.merger.norm"),
             (".ln1.", ".norm1."), (".ln2.", ".norm2."), (".ffn_up.", ".mlp.linear_fc1."), (".ffn_down.", ".mlp.linear_fc2."),
             ("mm.0.", "v.merger.linear_fc1."), ("mm.2.", "v.merger.linear_fc2."), (".fc1.", ".linear_fc1."),
             (".fc2.", ".linear_fc2."), ("v.deepstack.", "v.deepstack_merger."))
QWEN3_NEW = (("v.post_ln", "v.merger.norm"), ("mm.0.", "v.merger.linear_fc1."), ("mm.2.", "v.merger.linear_fc2."),
             (".fc1.", ".linear_fc1."), (".fc2.", ".linear_fc2."))
MISTRAL3 = (("v.patch_embd", "v.patch_conv"), ("v.pre_ln", "v.encoder_norm"), (".ln1.", ".attn_norm."), (".ln2.", ".ffn_norm."),
            (".attn_out.", ".attn_output."), ("mm.1.", "mm.linear_1."), ("mm.2.", "mm.linear_2."), ("mm.input_norm", "mm.norm"),
            ("mm.patch_merger", "mm.patch_merger.merging_layer"))
LLAMA4 = (("mm.model.mlp.1.", "v.vision_adapter.mlp.fc1."), ("mm.model.mlp.2.", "v.vision_adapter.mlp.fc2."),
          ("mm.model.fc", "mm.linear_1"), ("v.class_embd", "v.class_embedding"), ("v.post_ln", "v.layernorm_post"),
          ("v.position_embd.weight", "v.positional_embedding_vlm"), ("v.pre_ln", "v.layernorm_pre"),
          ("v.patch_embd", "v.patch_embedding"), (".attn_out.", ".attn_output."), (".ln1.", ".attn_norm."), (".ln2.", ".ffn_norm."),
          (".ffn_up.", ".mlp.fc1."), (".ffn_down.", ".mlp.fc2."))
LFM2 = (("mm.input_norm", "mm.layer_norm"),)


def renamed(name, table):
    """Applies the first row whose part is in the name."""
    for part, other in table:
        if part in name:
            return name.replace(part, other, 1)
    return name


def whole_name(name, table):
    """Applies all rows for the parts of a name in a layer, and one row for other names."""
    if not name.startswith("v.blk."):
        # A deep projector has two parts with other names.
        return renamed(renamed(name, table), table[-2:]) if name.startswith("v.deepstack.") else renamed(name, table)
    return renamed(name, [row for row in table if row[0].startswith(".")])


def rows(tensor):
    n = len(tensor.data) // tensor.shape[-1]
    return [tensor.data[at : at + n] for at in range(0, len(tensor.data), n)]


def split_qkv(tensors):
    """Replaces attn_qkv by three tensors."""
    for name in [name for name in tensors if ".attn_qkv." in name]:
        whole = tensors.pop(name)
        n = len(whole.data) // 3
        shape = [*whole.shape[:-1], whole.shape[-1] // 3]
        for i, matrix in enumerate(MATRICES):
            tensors[name.replace("attn_qkv", matrix)] = Tensor(shape, whole.type, whole.data[i * n : (i + 1) * n])


def join_frames(tensors):
    """Makes one tensor [patch][patch][2][3 n] of both frames of the patch embedding."""
    first, second = tensors["v.patch_embd.weight"], tensors.pop("v.patch_embd.weight.1")
    width, height, n_colors, n_out = first.shape
    n = width * height * BYTES[first.type]
    data = b"".join(part.data[at : at + n] for at in range(0, len(first.data), n) for part in (first, second))
    tensors["v.patch_embd.weight"] = Tensor([width, height, 2, n_colors * n_out], first.type, data)


def number_deep_projectors(tensors, layers):
    for name in [name for name in tensors if name.startswith("v.deepstack.")]:
        index = layers.index(int(name.split(".")[2]))
        tensors[re.sub(r"^v\.deepstack\.\d+", f"v.deepstack.#{index}", name)] = tensors.pop(name)
    for name in [name for name in tensors if "#" in name]:
        tensors[name.replace("#", "")] = tensors.pop(name)


def restore_halves(tensor, n_heads):
    """Undoes the converter's order of rows, in which values that rotate together are adjacent."""
    all_rows = rows(tensor)
    n = len(all_rows) // n_heads
    order = [head * n + half + 2 * i for head in range(n_heads) for half in range(2) for i in range(n // 2)]
    return Tensor(tensor.shape, tensor.type, b"".join(all_rows[i] for i in order))


class Merged:
    """The file of a model and its projector, while it is changed."""

    def __init__(self, text, projector, architecture=None):
        self.file = copy.deepcopy(text)
        self.own = text.get("general.architecture").decode()
        self.name = architecture or self.own
        self.vision = copy.deepcopy(projector.tensors)
        self.clip = {name.removeprefix("clip.vision."): value for name, value in projector.keys.items() if name.startswith("clip.vision.")}
        self.file.keys = {re.sub(f"^{self.own}\\.", self.name + ".", name): value for name, value in self.file.keys.items()}
        self.file.keys["general.architecture"] = STRING, self.name.encode()

    def set(self, name, kind, value):
        self.file.keys[f"{self.name}.{name}"] = kind, value

    def drop(self, *names):
        for name in names:
            del self.file.keys[f"{self.name}.{name}"]

    def take(self, *names):
        """Copies keys of the projector."""
        for name in names:
            self.set("vision." + name, *self.clip[name])

    def take_sizes(self):
        self.take("block_count", "embedding_length", "attention.head_count", "patch_size")
        self.set("vision.num_channels", U32, 3)

    def done(self, table):
        self.file.tensors = {**{whole_name(name, table): tensor for name, tensor in self.vision.items()}, **self.file.tensors}
        return self.file


def gemma3(text, projector):
    merged = Merged(text, projector)
    merged.take_sizes()
    merged.take("feed_forward_length", "image_size", "attention.layer_norm_epsilon")
    merged.drop("attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.freq_base_swa")
    merged.set("rope.global.freq_base", FLOAT, 1e6)
    merged.set("rope.local.freq_base", FLOAT, 1e4)
    merged.set("mm.tokens_per_image", U32, 16)
    # A token for pictures that has no embedding.
    for name, value in (("tokens", b"<image_soft_token_of_ollama>"), ("token_type", 3), ("scores", 0.0)):
        key = "tokenizer.ggml." + name
        if key in merged.file.keys:
            kind, (element, values) = merged.file.keys[key]
            merged.file.keys[key] = kind, (element, [*values, value])
    return merged.done(GEMMA3)


def qwen25vl(text, projector):
    merged = Merged(text, projector, "qwen25vl")
    sections = merged.file.keys.pop("qwen25vl.rope.dimension_sections")[1][1]
    merged.set("rope.mrope_section", ARRAY, (I32, sections[:3]))
    merged.take_sizes()
    merged.take("attention.layer_norm_epsilon")
    period, n_layers = merged.clip["n_wa_pattern"][1], merged.clip["block_count"][1]
    merged.set("vision.fullatt_block_indexes", ARRAY, (I32, list(range(period - 1, n_layers, period))))
    merged.set("vision.spatial_merge_size", U32, 2)
    merged.set("vision.window_size", U32, 112)
    merged.set("vision.rope.freq_base", FLOAT, 1e4)
    return merged.done(QWEN25)


def take_qwen3(merged):
    merged.take_sizes()
    merged.take("spatial_merge_size", "attention.layer_norm_epsilon")
    deep = [i for i, is_deep in enumerate(merged.clip["is_deepstack_layers"][1][1]) if is_deep]
    merged.set("vision.deepstack_visual_indexes", ARRAY, (I32, deep))
    merged.set("vision.shortest_edge", U32, 65536)
    merged.set("vision.longest_edge", U32, 16777216)
    split_qkv(merged.vision)
    join_frames(merged.vision)
    number_deep_projectors(merged.vision, deep)


def qwen3vl(text, projector, table=QWEN3_NEW):
    merged = Merged(text, projector)
    take_qwen3(merged)
    merged.drop("n_deepstack_layers")
    sections = merged.file.keys.pop("qwen3vl.rope.dimension_sections")[1][1]
    merged.set("mrope_sections", ARRAY, (I32, sections[:3]))
    for name in ("image_mean", "image_std"):
        merged.take(name)
    return merged.done(table)


def qwen3vl_old(text, projector):
    return qwen3vl(text, projector, QWEN3_OLD)


def qwen35(text, projector):
    merged = Merged(text, projector)
    take_qwen3(merged)
    n_kv_heads = merged.file.get("qwen35.attention.head_count_kv")
    recurrent = merged.file.keys.pop("qwen35.attention.recurrent_layers")[1][1]
    merged.set("attention.head_count_kv", ARRAY, (U32, [0 if one else n_kv_heads for one in recurrent]))
    sections = merged.file.get("qwen35.rope.dimension_sections")[1]
    merged.set("rope.dimension_sections", ARRAY, (I32, sections[:3]))
    merged.set("rope.mrope_interleaved", BOOL, True)
    merged.set("ssm.v_head_reordered", BOOL, True)
    merged.file.tensors = {name.replace(".ssm_dt.bias", ".ssm_dt"): tensor for name, tensor in merged.file.tensors.items()}
    return merged.done(QWEN3_NEW)


def mistral3(text, projector):
    merged = Merged(text, projector)
    merged.take_sizes()
    merged.take("feed_forward_length", "image_size")
    merged.set("spatial_merge_size", *merged.clip["spatial_merge_size"])
    merged.set("vision.rope.freq_base", FLOAT, 1e4)
    del merged.vision["v.token_embd.img_break"]
    n_heads = merged.clip["attention.head_count"][1]
    for name, tensor in merged.vision.items():
        if ".attn_q." in name or ".attn_k." in name:
            merged.vision[name] = restore_halves(tensor, n_heads)
    del merged.file.keys["tokenizer.ggml.pre"]
    return merged.done(MISTRAL3)


def llama4(text, projector):
    merged = Merged(text, projector)
    merged.take_sizes()
    merged.take("feed_forward_length", "image_size")
    merged.set("vision.layer_norm_epsilon", *merged.clip["attention.layer_norm_epsilon"])
    merged.set("vision.pixel_shuffle_ratio", FLOAT, 1 / merged.clip["projector.scale_factor"][1])
    merged.set("use_qk_norm", BOOL, True)
    return merged.done(LLAMA4)


def gemma4(text, projector):
    merged = Merged(text, projector)
    merged.take_sizes()
    merged.take("feed_forward_length", "attention.layer_norm_epsilon")
    merged.set("vision.projector.scale_factor", U32, 3)
    merged.vision["a.conv1d.0.weight"] = Tensor([1], 0, bytes(4))  # of the audio encoder
    merged.vision["mm.a.input_projection.weight"] = Tensor([1], 0, bytes(4))
    return merged.done(())


def limits_of(i):
    return [-0.5 - i / 64, 0.5 + i / 32, -1 - i / 64, 1 + i / 32]


def with_limits(projector):
    """Adds limits around all products to a projector of Gemma 4, as E2B and E4B have them."""
    projector = copy.deepcopy(projector)
    for i, name in enumerate(limited_products(projector)):
        for kind, limit in zip(("input_min", "input_max", "output_min", "output_max"), limits_of(i)):
            projector.tensors[f"{name}.{kind}"] = Tensor([1], 0, struct.pack("<f", limit))
    return projector


def limited_products(projector):
    parts = (*MATRICES, "attn_out", "ffn_gate", "ffn_up", "ffn_down")
    return [f"v.blk.{layer}.{part}" for layer in range(projector.get("clip.vision.block_count")) for part in parts] + ["mm.input_projection"]


def gemma4_limits(text, projector):
    """The limits of with_limits() are in one tensor."""
    plain = copy.deepcopy(projector)
    products = limited_products(projector)
    plain.tensors = {name: tensor for name, tensor in projector.tensors.items() if not name.endswith(("_min", "_max"))}
    values = [limit for i in range(len(products)) for limit in limits_of(i)]
    plain.tensors["v.clamp_data"] = Tensor([len(values)], 0, struct.pack(f"<{len(values)}f", *values))
    return gemma4(text, plain)


def lfm2(text, projector):
    merged = Merged(text, projector)
    merged.take_sizes()
    merged.take("feed_forward_length", "image_size", "attention.layer_norm_epsilon", "projector.scale_factor")
    for name, number in (("min_tiles", 2), ("max_tiles", 10), ("tile_size", 512), ("min_image_tokens", 64), ("max_image_tokens", 256)):
        merged.set("vision." + name, U32, number)
    merged.set("vision.do_image_splitting", BOOL, True)
    merged.set("vision.use_thumbnail", BOOL, True)
    merged.set("feed_forward_length", U32, 12288)
    merged.file.tensors["output_norm.weight"] = merged.file.tensors.pop("token_embd_norm.weight")
    return merged.done(LFM2)
