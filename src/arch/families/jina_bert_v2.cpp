// jina-bert-v2: jina-embeddings-v2 and jina-reranker-v1. As bert, but with ALiBi on both sides
// instead of learned positions, and usually a gated feed-forward part. The models for code norm
// queries and keys, and norm the state a second time after attention.
#include "arch/encoders/style.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

EncoderStyle style(const Metadata& meta) {
  EncoderStyle out = read_encoder(meta);
  const gguf::File& file = meta.file();
  const gguf::TensorInfo* up = file.find_tensor("blk.0.ffn_up.weight");
  out.gated = file.find_tensor("blk.0.ffn_gate.weight") != nullptr ||
              (up != nullptr && up->shape[1] != out.n_ff);
  out.biases = true;
  out.alibi = 8.0f;
  out.qk_norm = file.find_tensor("blk.0.attn_q_norm.weight") != nullptr;
  return out;
}

}  // namespace

const ArchDef kJinaBertV2 = {"jina-bert-v2", nullptr, style};

}  // namespace billow::arch
