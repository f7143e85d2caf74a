// apertus: Apertus 8B and 70B. Query and key heads are normed. xIELU without a gate, with separate
// numbers for each layer.
#include <cmath>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

// Files hold the trained numbers: positive numbers are their softplus.
double softplus(double x) { return std::log1p(std::exp(x)); }

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta,
      {.rope = kernels::RopeKind::kHalves, .activation = nn::Activation::kXielu, .gated = false});
  set_qk_norms(out, QkNorm::kBeforeRope);
  const size_t n = out.layers.size();
  const std::vector<double> alpha_n = meta.reals_per_layer("xielu.alpha_n", n);
  const std::vector<double> alpha_p = meta.reals_per_layer("xielu.alpha_p", n);
  const std::vector<double> beta = meta.reals_per_layer("xielu.beta", n);
  const std::vector<double> eps = meta.reals_per_layer("xielu.eps", n);
  for (size_t i = 0; i < n; ++i) {
    if (!out.layers[i].dense) continue;
    out.layers[i].dense->xielu = {.alpha_n = static_cast<float>(beta[i] + softplus(alpha_n[i])),
                                  .alpha_p = static_cast<float>(softplus(alpha_p[i])),
                                  .beta = static_cast<float>(beta[i]),
                                  .eps = static_cast<float>(eps[i])};
  }
  return out;
}

}  // namespace

const ArchDef kApertus = {"apertus", style};

}  // namespace billow::arch
