// llama4: the text part of Llama 4 Scout and Maverick. Three of four layers rotate and see the last
// chunk of 8192 positions. In the others, queries far beyond a chunk are scaled up. One expert by
// sigmoid, whose weight multiplies the expert's input, and a shared expert. Scout norms queries and
// keys after rotation, without weights.
#include <algorithm>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  set_experts(out, meta, {.gating = Gating::kSigmoid, .weighs_input = true});
  // A window of 0 means that all layers see everything and rotate.
  if (meta.has("attention.sliding_window") &&
      meta.count("attention.sliding_window", kMaxContext) == 0)
    return out;
  constexpr size_t kChunk = 8192;
  constexpr float kGrowth = 0.1f;
  constexpr size_t kExpertsOfMaverick = 128;
  const bool normed = meta.size("expert_count", kMaxWidth) != kExpertsOfMaverick;
  const std::vector<bool> local = read_window_pattern(meta, out.layers.size(), 4);
  for_attention(out, [&](size_t i, AttentionStyle& a) {
    if (local[i]) {
      a.chunk = kChunk;
      a.window = std::min(kChunk, out.max_context);
      a.qk_norm = normed ? QkNorm::kAfterRope : QkNorm::kNone;
      a.plain_qk_norm = true;
    } else {
      a.rope.reset();
      a.temperature = {.growth = kGrowth, .length = static_cast<float>(kChunk), .offset = 1.0f};
    }
  });
  return out;
}

}  // namespace

const ArchDef kLlama4 = {"llama4", style};

}  // namespace billow::arch
