// deci: Llama Nemotron Super 49B and 51B, DeciLM 7B. As llama, but each layer has its own sizes,
// and some layers have no attention.
#include <string>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.uneven = true});
  for (size_t i = 0; i < out.layers.size(); ++i) {
    LayerStyle& layer = out.layers[i];
    if (!std::holds_alternative<std::monostate>(layer.mixer)) continue;
    if (has_tensor(meta, i, "attn_output.weight")) {
      meta.refuse("attention.head_count_kv",
                  "is 0 for layer " + std::to_string(i) +
                      ", which has a matrix in place of attention; that is not supported");
    }
    layer.norms.attn = "";
  }
  return out;
}

}  // namespace

const ArchDef kDeci = {"deci", style};

}  // namespace billow::arch
