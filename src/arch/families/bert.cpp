// bert: BERT and what is built like it, RoBERTa and XLM-R (MiniLM, BGE, E5, GTE, arctic, their
// rerankers). Learned positions, biases everywhere, exact GELU. Converters leave out the rows of
// RoBERTa's position table that stand for padding, so that positions begin at 0 here, too.
#include "arch/encoders/post_norm_encoder.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

std::unique_ptr<Encoder> load_bert(const gguf::File& file, const LoadOptions& options) {
  return std::make_unique<PostNormEncoder>(
      file, options,
      EncoderStyle{.positions = EncoderPositions::kLearned, .gated = false, .biases = true});
}

}  // namespace

const ArchDef kBert = {"bert", nullptr, load_bert};

}  // namespace billow::arch
