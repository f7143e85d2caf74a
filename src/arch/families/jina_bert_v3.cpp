// jina-bert-v3: jina-embeddings-v3 without its adapters, or with one that is merged. As bert, but
// queries and keys rotate (the halves of a head together).
#include "arch/encoders/style.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

EncoderStyle style(const Metadata& meta) {
  EncoderStyle out = read_encoder(meta);
  out.biases = true;
  set_rope(out, meta);
  return out;
}

}  // namespace

const ArchDef kJinaBertV3 = {"jina-bert-v3", nullptr, style};

}  // namespace billow::arch
