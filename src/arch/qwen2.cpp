// qwen2: Qwen 1.5 to 2.5 without experts, and models distilled into them. As llama, but with biases
// on Q, K and V, and the halves of a head rotate together.
#include <cmath>

#include "arch/blocks/pre_norm_decoder.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

class Qwen2 final : public Model {
 public:
  Qwen2(const gguf::File& file, const LoadOptions& options) {
    const Hparams h = read_hparams(file);
    decoder_.h = h;
    decoder_.rope = nn::Rope(read_rope(file, h, kernels::RopeKind::kHalves, options.max_context));
    decoder_.scale.factor = 1.0f / std::sqrt(static_cast<float>(h.k_len));
    decoder_.load(WeightLoader(file, options.packed));
    info_ = describe(kQwen2.name, h);
  }

  void forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
               const Outputs& out) const override {
    decoder_.forward(compute, cache, batch, out);
  }

 private:
  PreNormDecoder decoder_;
};

}  // namespace

const ArchDef kQwen2 = {"qwen2", load_as<Qwen2>};

}  // namespace billow::arch
