// bert: BERT and what is built like it, RoBERTa and XLM-R (MiniLM, BGE, E5, GTE, arctic, their
// rerankers). Learned positions, biases everywhere, exact GELU. Converters leave out the rows of
// RoBERTa's position table that stand for padding, so that positions begin at 0 here, too.
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
