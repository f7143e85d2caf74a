// gemma-embedding: EmbeddingGemma. As gemma3, but a token also sees later tokens. All layers except
// every sixth see a window, half of it on either side. If the file has dense layers, they process
// the pooled vectors.
#include "arch/families/gemma_embedding.h"

#include <cmath>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {

EncoderStyle gemma_embedding_style(const Metadata& meta) {
  EncoderStyle out = read_encoder(
      meta, {.norm = NormKind::kRms, .gated = true, .activation = nn::Activation::kGeluTanh});
  out.norms_of_sums = false;
  out.norms = {.attn = "attn_norm",
               .post_attn = "post_attention_norm",
               .ffn = "ffn_norm",
               .post_ffn = "post_ffw_norm"};
  out.output_norm = "output_norm";
  out.embedding_norm = false;
  out.embedding_scale = std::sqrt(static_cast<float>(out.n_embd));
  out.qk_norm = true;
  set_rope(out, meta);
  constexpr double kGlobalBase = 1e6;
  if (!meta.has("rope.freq_base")) out.ropes[0].base = kGlobalBase;
  set_local_layers(out, meta, read_window_pattern(meta, out.layers.size(), 6));
  return out;
}

const ArchDef kGemmaEmbedding = {"gemma-embedding", nullptr, gemma_embedding_style};

}  // namespace billow::arch
