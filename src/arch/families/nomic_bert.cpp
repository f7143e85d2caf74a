// nomic-bert: nomic-embed-text 1 and 1.5. As bert, but queries and keys rotate (their halves
// together), the feed-forward part is gated by SiLU, and products have no biases.
#include "arch/encoders/post_norm_encoder.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

std::unique_ptr<Encoder> load_nomic_bert(const gguf::File& file, const LoadOptions& options) {
  return std::make_unique<PostNormEncoder>(
      file, options,
      EncoderStyle{.positions = EncoderPositions::kRotary, .gated = true, .biases = false});
}

}  // namespace

const ArchDef kNomicBert = {"nomic-bert", nullptr, load_nomic_bert};

}  // namespace billow::arch
