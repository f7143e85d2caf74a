// llama: Llama 1 to 3, Mistral 7B, TinyLlama, SmolLM and their kin. RMS norm, rotary attention with
// grouped KV heads, SwiGLU. Converters permute Q and K so that neighbouring values rotate together.
#include <cmath>

#include "arch/blocks/pre_norm_decoder.h"
#include "arch/registry.h"
#include "base/error.h"

namespace billow::arch {
namespace {

class Llama final : public Model {
 public:
  Llama(const gguf::File& file, const LoadOptions& options) {
    const Hparams h = read_hparams(file);
    if (file.get_uint(h.prefix + "expert_count").value_or(0) != 0) {
      throw Error(ErrorCode::kUnsupported, file.path() + ": mixtures of experts are not supported");
    }
    decoder_.h = h;
    decoder_.rope = nn::Rope(read_rope(file, h, kernels::RopeKind::kAdjacent, options.max_context));
    const double default_scale = 1.0 / std::sqrt(static_cast<double>(h.k_len));
    decoder_.scale.factor =
        static_cast<float>(file.get_float(h.prefix + "attention.scale").value_or(default_scale));
    decoder_.load(WeightLoader(file, options.packed));
    info_ = describe(kLlama.name, h);
  }

  void forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
               const Outputs& out) const override {
    decoder_.forward(compute, cache, batch, out);
  }

 private:
  PreNormDecoder decoder_;
};

}  // namespace

const ArchDef kLlama = {"llama", load_as<Llama>};

}  // namespace billow::arch
