// eurobert: EuroBERT and jina-embeddings-v5. As llama, but a token also sees later tokens, and the
// halves of a head rotate together.
#include "arch/families/bidirectional.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

EncoderStyle style(const Metadata& meta) {
  return bidirectional_style(meta, kernels::RopeKind::kHalves);
}

}  // namespace

const ArchDef kEuroBert = {"eurobert", nullptr, style};

}  // namespace billow::arch
