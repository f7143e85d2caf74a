#include "vision/embedded_family.h"

namespace billow::vision {
namespace {

constexpr std::array kHalf = {0.5f, 0.5f, 0.5f};
constexpr std::array kZero = {0.0f, 0.0f, 0.0f};
constexpr std::array kOne = {1.0f, 1.0f, 1.0f};
// Of CLIP.
constexpr std::array kClipMean = {0.48145466f, 0.4578275f, 0.40821073f};
constexpr std::array kClipStd = {0.26862954f, 0.26130258f, 0.27577711f};

constexpr std::string_view kGelu = "clip.use_gelu";
constexpr std::string_view kSilu = "clip.use_silu";

constexpr DefaultNumber kEpsilon = {"attention.layer_norm_epsilon", 0, 1e-6f};

constexpr std::array kGemma3Tensors = {
    Renaming{"v.patch_embedding", "v.patch_embd"},
    Renaming{"v.position_embedding", "v.position_embd"},
    Renaming{"v.post_layernorm", "v.post_ln"},
    Renaming{"mm.mm_input_projection", "mm.input_projection"},
    Renaming{"mm.mm_soft_emb_norm", "mm.soft_emb_norm"},
};
constexpr std::array kGemma3Layer = {
    Renaming{"layer_norm1", "ln1"},      Renaming{"layer_norm2", "ln2"},
    Renaming{"attn_output", "attn_out"}, Renaming{"mlp.fc1", "ffn_up"},
    Renaming{"mlp.fc2", "ffn_down"},
};
constexpr std::array kGemma3Defaults = {kEpsilon};

constexpr std::array kQwen25Tensors = {
    Renaming{"v.patch_embd_0.weight", "v.patch_embd.weight"},
    Renaming{"v.patch_embd_1.weight", "v.patch_embd.weight.1"},
    Renaming{"v.merger.ln_q", "v.post_ln"},
    Renaming{"v.merger.mlp.0", "mm.0"},
    Renaming{"v.merger.mlp.2", "mm.2"},
};
// The encoder takes pictures of any size; the projectors of llama.cpp have 560, too.
constexpr std::array kQwen25Defaults = {kEpsilon, DefaultNumber{"image_size", 560}};

// Old files have the names of transformers in places.
constexpr std::array kQwen3Tensors = {
    Renaming{"v.patch_embed", "v.patch_embd"}, Renaming{"v.pos_embed", "v.position_embd"},
    Renaming{"v.merger.norm", "v.post_ln"},    Renaming{"v.merger.linear_fc1", "mm.0"},
    Renaming{"v.merger.linear_fc2", "mm.2"},
};
constexpr std::array kQwen3Layer = {
    Renaming{"norm1", "ln1"},
    Renaming{"norm2", "ln2"},
    Renaming{"mlp.linear_fc1", "ffn_up"},
    Renaming{"mlp.linear_fc2", "ffn_down"},
};
constexpr std::array kQwen3Defaults = {kEpsilon};

constexpr std::array kMistral3Tensors = {
    Renaming{"v.patch_conv", "v.patch_embd"},
    Renaming{"v.encoder_norm", "v.pre_ln"},
    Renaming{"mm.linear_1", "mm.1"},
    Renaming{"mm.linear_2", "mm.2"},
    Renaming{"mm.norm", "mm.input_norm"},
    Renaming{"mm.patch_merger.merging_layer", "mm.patch_merger"},
};
constexpr std::array kAttentionLayer = {
    Renaming{"attn_output", "attn_out"}, Renaming{"attn_norm", "ln1"},
    Renaming{"ffn_norm", "ln2"},         Renaming{"mlp.fc1", "ffn_up"},
    Renaming{"mlp.fc2", "ffn_down"},
};
constexpr std::array kMistral3Keys = {Renaming{"spatial_merge_size", "spatial_merge_size"}};
constexpr std::array kMistral3Defaults = {DefaultNumber{"attention.layer_norm_epsilon", 0, 1e-5f}};

constexpr std::array kLlama4Tensors = {
    Renaming{"v.vision_adapter.mlp.fc1", "mm.model.mlp.1"},
    Renaming{"v.vision_adapter.mlp.fc2", "mm.model.mlp.2"},
    Renaming{"mm.linear_1", "mm.model.fc"},
    Renaming{"v.class_embedding", "v.class_embd"},
    Renaming{"v.positional_embedding_vlm", "v.position_embd.weight"},
    Renaming{"v.layernorm_post", "v.post_ln"},
    Renaming{"v.layernorm_pre", "v.pre_ln"},
    Renaming{"v.patch_embedding", "v.patch_embd"},
};
constexpr std::array kLlama4Keys = {
    Renaming{"vision.layer_norm_epsilon", "attention.layer_norm_epsilon"}};

constexpr std::array kGemma4Defaults = {kEpsilon, DefaultNumber{"image_size", 224}};

constexpr std::array kLfm2Tensors = {Renaming{"mm.layer_norm", "mm.input_norm"}};
constexpr std::array kLfm2Keys = {Renaming{"vision.min_tiles", "preproc_min_tiles"},
                                  Renaming{"vision.max_tiles", "preproc_max_tiles"}};
constexpr std::array kLfm2Defaults = {kEpsilon};

constexpr EmbeddedFamily qwen3(std::string_view architecture) {
  return {architecture,  "qwen3vl_merger", kGelu, kHalf,          kHalf,
          kQwen3Tensors, kQwen3Layer,      {},    kQwen3Defaults, complete_qwen3};
}

// The columns are in the order of EmbeddedFamily: architecture, projector, activation; mean, std;
// tensors, layer_tensors; keys, defaults; complete.
constexpr std::array kFamilies = {
    EmbeddedFamily{"gemma3",
                   "gemma3",
                   kGelu,
                   kHalf,
                   kHalf,  //
                   kGemma3Tensors,
                   kGemma3Layer,
                   {},
                   kGemma3Defaults},
    EmbeddedFamily{"qwen25vl",
                   "qwen2.5vl_merger",
                   kSilu,
                   kClipMean,
                   kClipStd,  //
                   kQwen25Tensors,
                   {},
                   {},
                   kQwen25Defaults,
                   complete_qwen25},
    qwen3("qwen3vl"),
    qwen3("qwen3vlmoe"),
    qwen3("qwen35"),
    qwen3("qwen35moe"),
    EmbeddedFamily{"mistral3", "pixtral", kSilu, kClipMean, kClipStd,  //
                   kMistral3Tensors, kAttentionLayer, kMistral3Keys, kMistral3Defaults,
                   complete_mistral3},
    EmbeddedFamily{"llama4",
                   "llama4",
                   kGelu,
                   kHalf,
                   kHalf,  //
                   kLlama4Tensors,
                   kAttentionLayer,
                   kLlama4Keys,
                   {},
                   complete_llama4},
    EmbeddedFamily{"gemma4",
                   "gemma4v",
                   "",
                   kZero,
                   kOne,  //
                   {},
                   {},
                   {},
                   kGemma4Defaults,
                   complete_gemma4},
    EmbeddedFamily{"lfm2",
                   "lfm2",
                   kGelu,
                   kHalf,
                   kHalf,  //
                   kLfm2Tensors,
                   {},
                   kLfm2Keys,
                   kLfm2Defaults,
                   complete_lfm2},
};

}  // namespace

std::span<const EmbeddedFamily> embedded_families() noexcept { return kFamilies; }

}  // namespace billow::vision
