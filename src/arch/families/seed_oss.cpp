// seed_oss: Seed-OSS 36B. As qwen2; the norm before the feed-forward part is named
// post_attention_norm.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  for (LayerStyle& layer : out.layers) layer.norms.ffn = "post_attention_norm";
  return out;
}

}  // namespace

const ArchDef kSeedOss = {"seed_oss", style};

}  // namespace billow::arch
