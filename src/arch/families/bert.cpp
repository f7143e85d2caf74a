// bert: BERT and similar encoders, RoBERTa and XLM-R (MiniLM, BGE, E5, GTE, arctic, their
// rerankers). Learned positions, biases everywhere, exact GELU. Converters omit the padding rows of
// RoBERTa's position table, so that its positions begin at 0, too.
#include "arch/encoders/style.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

EncoderStyle style(const Metadata& meta) {
  EncoderStyle out = read_encoder(meta);
  out.learned_positions = true;
  out.biases = true;
  return out;
}

}  // namespace

const ArchDef kBert = {"bert", nullptr, style};

}  // namespace billow::arch
