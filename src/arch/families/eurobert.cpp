// eurobert: EuroBERT and jina-embeddings-v5. As llama, but a token sees those behind it, too, and
// the halves of a head rotate together.
#include "arch/encoders/style.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

EncoderStyle style(const Metadata& meta) {
  EncoderStyle out = read_encoder(
      meta, {.norm = NormKind::kRms, .gated = true, .activation = nn::Activation::kSilu});
  out.norms_of_sums = false;
  out.norms = {.attn = "attn_norm", .post_attn = "", .ffn = "ffn_norm", .post_ffn = ""};
  out.output_norm = "output_norm";
  out.embedding_norm = false;
  set_rope(out, meta);
  return out;
}

}  // namespace

const ArchDef kEuroBert = {"eurobert", nullptr, style};

}  // namespace billow::arch
