// exaone-moe: K-EXAONE. Query and key heads are normed. Three of four layers see a window, and only
// these rotate. Experts by sigmoid, and a shared expert.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  const std::vector<bool> local = read_window_pattern(meta, out.layers.size(), 4);
  constexpr size_t kWindow = 128;
  set_windows(out, meta, local, kWindow);
  for_attention(out, [&](size_t i, AttentionStyle& a) {
    a.qk_norm = QkNorm::kBeforeRope;
    if (!local[i]) a.rope.reset();
  });
  set_experts(out, meta, {.gating = Gating::kSigmoid});
  return out;
}

}  // namespace

const ArchDef kExaoneMoe = {"exaone-moe", style};

}  // namespace billow::arch
