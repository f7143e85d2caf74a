// The description of a family of decoders as plain data: sizes of each layer, places of norms,
// activation, positions. A family's file fills it in from metadata; Decoder loads and runs it.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "nn/activation.h"
#include "nn/rope.h"

namespace billow::arch {

enum class NormKind : uint8_t {
  kRms,      // divides by the root of the mean square
  kMean,     // layer norm: subtracts the mean, divides by the deviation; optional bias
  kNoWeight  // layer norm without weight and bias
};

enum class QkNorm : uint8_t { kNone, kBeforeRope, kAfterRope };

// Queries are multiplied by 1 + growth * ln(1 + floor((position + offset) / length)).
struct Temperature {
  float growth = 0.0f;  // 0: queries are not scaled
  float length = 1.0f;
  float offset = 0.0f;
};

struct AttentionStyle {
  size_t n_heads = 0;
  size_t n_kv_heads = 0;
  size_t k_len = 0;                 // length of a head; a multiple of 16
  size_t v_len = 0;                 // length of a head; a multiple of 16
  size_t window = 0;                // positions that a query sees, including its own; 0: all
  size_t chunk = 0;                 // a query sees its own chunk of this many positions; 0: all
  std::optional<size_t> rope = {};  // index into DecoderStyle::ropes; none: no rotation
  float scale = 1.0f;               // multiplies the dot products
  float softcap = 0.0f;             // limit of scores; 0: none
  QkNorm qk_norm = QkNorm::kNone;   // with the kind of the model's norms
  bool plain_qk_norm = false;       // norms by RMS without weights instead
  bool v_norm = false;              // norms value heads by RMS, without weights
  bool values_are_keys = false;     // no V matrix: values are keys before norm and rope
  bool gated = false;               // each query head is followed by a gate for the head's result
  bool own_gate = false;            // the gates have a separate matrix
  bool sinks = false;               // each head has a score without a value
  bool whole_pictures = false;      // the tokens of a picture see each other
  float clip = 0.0f;                // q, k and v are clamped to +-clip; 0: no
  float alibi = 0.0f;               // ALiBi's max bias; 0: no ALiBi
  Temperature temperature = {};
  // The earlier layer whose KV this layer reads; none: the layer has its own KV.
  std::optional<size_t> kv_layer = {};
};

// Multi-head latent attention (DeepSeek V2, arXiv 2405.04434): the cache has one row for all heads.
struct LatentAttentionStyle {
  size_t n_heads = 0;
  size_t q_rank = 0;   // 0: queries are computed from the state directly
  size_t kv_rank = 0;  // values of the cached row that keys and values are computed from
  size_t n_rot = 0;    // values of a key that rotate; all heads share them
  size_t k_len = 0;    // of a head: values from the cached row, then values that rotate
  size_t v_len = 0;
  std::optional<size_t> rope = {};
  float scale = 1.0f;
  Temperature temperature = {};
};

// LFM2's short convolution.
struct ShortConvStyle {
  size_t taps = 0;  // positions that it sees, including its own
};

enum class MambaNorms : uint8_t {
  kNone,
  kWeighted,  // Jamba
  kPlain,     // Falcon Mamba: without weights
};

// Mamba's selective state space.
struct MambaStyle {
  size_t n_channels = 0;  // a multiple of 16
  size_t n_states = 0;    // in each channel
  size_t n_steps = 0;     // rank of the step sizes
  size_t taps = 0;
  MambaNorms norms = MambaNorms::kNone;  // for step sizes, inputs and outputs of the state
};

// Mamba 2's state space.
struct Mamba2Style {
  size_t n_channels = 0;  // sum of all heads
  size_t n_states = 0;
  size_t n_heads = 0;   // each with a multiple of 16 channels
  size_t n_groups = 0;  // groups of heads that share keys and queries
  size_t taps = 0;
  bool has_norm = true;  // whether the state's output is normed
};

// The gated delta net of Qwen3-Next and Qwen 3.5.
struct DeltaNetStyle {
  size_t n_key_heads = 0;
  size_t n_heads = 0;    // number of value heads
  size_t key_len = 0;    // length of a head
  size_t value_len = 0;  // a multiple of 16
  size_t taps = 0;
  bool tiled = false;  // head h has key head h % n_key_heads, otherwise h / (n_heads / n_key_heads)
};

// Kimi delta attention.
struct KimiDeltaStyle {
  size_t n_heads = 0;
  size_t head_len = 0;  // of queries, keys and values; a multiple of 16
  size_t taps = 0;
};

// RWKV 7: replaces attention.
struct TimeMixStyle {
  size_t head_len = 0;  // a multiple of 16
  size_t decay_rank = 0;
  size_t rate_rank = 0;
  size_t value_rank = 0;
  size_t gate_rank = 0;    // 0: no gates
  bool head_norm = false;  // whether heads' outputs are normed
  bool first = false;      // the first layer; the others mix its values into theirs
};

// RWKV 7: replaces the feed-forward part.
struct ChannelMixStyle {
  size_t n_ff = 0;
};

struct FeedForwardStyle {
  size_t n_ff = 0;
  bool gated = true;
  nn::Activation activation = nn::Activation::kSilu;
  nn::Xielu xielu = {};  // if the activation is kXielu
  // Each gate becomes max(0, gate - mean - cut * deviation), over the row's gates (Gemma 3n).
  std::optional<float> cut = {};
};

enum class Gating : uint8_t {
  kSoftmax,          // over all experts
  kSigmoid,          // of each expert
  kSoftmaxOfChosen,  // over the chosen experts' logits
  // Over the experts that are not chosen yet and have logits close to the best one (Liu et al.,
  // arXiv 2409.12136).
  kSparseMixer
};

struct ExpertsStyle {
  size_t n_experts = 0;
  size_t n_used = 0;    // for each token
  size_t n_ff = 0;      // width of one expert
  size_t n_latent = 0;  // width of the experts' inputs and outputs, between two matrices; 0: n_embd
  bool gated = true;
  nn::Activation activation = nn::Activation::kSilu;
  Gating gating = Gating::kSoftmax;
  bool renormalise = false;  // the chosen weights add up to 1
  float scale = 1.0f;        // multiplies the chosen weights
  size_t n_groups = 1;       // experts are chosen from the n_groups_used best groups
  size_t n_groups_used = 1;
  bool weighs_input = false;  // the weight multiplies an expert's input instead of its output
  size_t n_ff_shared = 0;     // width of the expert that every token has; 0: no shared expert
  bool shared_gate = false;   // its output is multiplied by sigmoid(gate x)
  // Gemma 4: dense part and experts run in parallel with separate norms. The router reads the
  // layer's state after a separate RMS norm.
  bool adds_dense = false;
};

// Names of norm tensors, without prefix and suffix; empty: no such norm.
struct LayerNorms {
  std::string_view attn = "attn_norm";
  std::string_view post_attn = "";
  std::string_view ffn = "ffn_norm";
  std::string_view post_ffn = "";
};

using MixerStyle =
    std::variant<std::monostate, AttentionStyle, LatentAttentionStyle, ShortConvStyle, MambaStyle,
                 Mamba2Style, DeltaNetStyle, KimiDeltaStyle, TimeMixStyle>;

struct LayerStyle {
  MixerStyle mixer = {};
  MixerStyle beside = {};  // reads the mixer's input; its result is added (Falcon H1)
  std::optional<FeedForwardStyle> dense = {};
  std::optional<ExpertsStyle> experts = {};         // replace the dense part, unless adds_dense
  std::optional<ChannelMixStyle> channel_mix = {};  // replaces the dense part
  LayerNorms norms = {};
  // Mixer and feed-forward part read the same state, and both results are added to it. If there is
  // no ffn norm, the feed-forward part reads the mixer's input.
  bool parallel = false;
  bool output_scale = false;  // the layer's result is multiplied by a weight (Gemma 4)
};

// Gemma 3n: see decoder/altup.h.
struct AltUpStyle {
  size_t n_states = 0;  // of a token; at least 2
  size_t laurel_rank = 0;
};

struct DecoderStyle {
  std::string architecture;
  size_t n_vocab = 0;
  size_t n_embd = 0;
  size_t max_context = 0;
  NormKind norm = NormKind::kRms;
  float norm_epsilon = 0.0f;
  float embedding_scale = 1.0f;
  bool embedding_norm = false;     // token_embd_norm
  bool first_values = false;       // layers mix the values of the first layer into theirs (RWKV 7)
  bool learned_positions = false;  // a row of position_embd is added
  // Gemma 3n and 4: length of each token's additional input to each layer; 0: no such input
  size_t n_embd_per_layer = 0;
  std::optional<AltUpStyle> altup = {};
  // The first n_deep layers add further embeddings of pictures to their results (Qwen3-VL).
  size_t n_deep = 0;
  float residual_scale = 1.0f;  // multiplies the results of sub-layers
  std::string_view output_norm = "output_norm";
  float logit_scale = 1.0f;
  float final_softcap = 0.0f;  // limit of logits; 0: none
  std::vector<nn::RopeParams> ropes;
  std::vector<LayerStyle> layers;
  size_t first_block = 0;  // block of the file that layers[0] is in
  // A predicting head: a row's state begins as a product of its token's embedding and the model's
  // hidden state for the token before it, both normed.
  bool predicts = false;
};

}  // namespace billow::arch
