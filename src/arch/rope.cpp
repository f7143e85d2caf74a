#include "arch/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/type.h"

namespace billow::arch {
namespace {

// Returns a divisor for each frequency; null if the file has none.
const float* find_divisors(const gguf::File& file, std::string_view name, size_t n) {
  const gguf::TensorInfo* info = file.find_tensor(name);
  if (info == nullptr) return nullptr;
  if (info->type != static_cast<uint32_t>(quant::Type::kF32) || info->n_elements() != n) {
    throw Error(ErrorCode::kInvalidInput, file.path() + ": tensor " + std::string(name) +
                                              " should be " + std::to_string(n) +
                                              " values of type F32");
  }
  for (size_t i = 0; i < n; ++i) {
    const float divisor = reinterpret_cast<const float*>(info->data.data())[i];
    if (!(divisor > 0.0f) || !std::isfinite(divisor)) {
      throw Error(ErrorCode::kInvalidInput,
                  file.path() + ": tensor " + std::string(name) +
                      " holds a frequency divisor that is not a positive number");
    }
  }
  return reinterpret_cast<const float*>(info->data.data());
}

// Reads LongRoPE (Ding et al., arXiv 2402.13753). Files of Phi 3 have its tensors, but do not name
// it as their scaling.
void read_long_rope(const Metadata& meta, size_t trained_context, nn::RopeParams& rope) {
  const auto need = [&](const char* name) {
    const float* divisors = find_divisors(meta.file(), name, rope.n_rot / 2);
    if (divisors != nullptr) return divisors;
    throw Error(ErrorCode::kInvalidInput, meta.file().path() + ": tensor " + name +
                                              " is missing, which rope scaling longrope needs");
  };
  rope.divisors = need("rope_factors_short.weight");
  if (static_cast<double>(trained_context) > rope.original_context)
    rope.long_divisors = need("rope_factors_long.weight");
}

void read_scaling(const Metadata& meta, size_t trained_context, nn::RopeParams& rope) {
  const std::string scaling = "rope.scaling.";
  // Files without a scaling type give the factor of linear scaling here.
  const double old_factor = meta.positive_or("rope.scale_linear", 1.0);
  const std::string_view type =
      meta.file().get_string(meta.key(scaling + "type")).value_or("linear");
  rope.factor = meta.positive_or(scaling + "factor", old_factor);
  rope.attention_factor = meta.positive_or(scaling + "attn_factor", 1.0);
  rope.original_context =
      meta.positive_or(scaling + "original_context_length", static_cast<double>(trained_context));
  rope.divisors = find_divisors(meta.file(), "rope_freqs.weight", rope.n_rot / 2);
  const auto has = [&](const char* name) { return meta.file().find_tensor(name) != nullptr; };
  if (type == "longrope" || has("rope_factors_short.weight") || has("rope_factors_long.weight"))
    return read_long_rope(meta, trained_context, rope);
  if (type == "none") return;
  if (type == "linear") {
    rope.scaling = nn::RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = nn::RopeScaling::kYarn;
    // The second name is that of Ollama's files.
    const auto key = [&](const char* name, const char* other) {
      return scaling + (meta.has(scaling + name) ? name : other);
    };
    rope.extrapolation = meta.real_or(key("yarn_ext_factor", "extrapolation_factor"), 1.0);
    rope.attention_factor *= meta.positive_or(scaling + "yarn_attn_factor", 1.0);
    rope.yarn_log_multiplier = meta.real_or(key("yarn_log_multiplier", "mscale_all_dim"), 0.0);
    rope.beta_fast = meta.positive_or(key("yarn_beta_fast", "beta_fast"), 32.0);
    rope.beta_slow = meta.positive_or(key("yarn_beta_slow", "beta_slow"), 1.0);
  } else {
    meta.refuse(scaling + "type",
                "is '" + std::string(type) + "'; known are none, linear, yarn and longrope");
  }
}

}  // namespace

nn::RopeParams read_rope(const Metadata& meta, kernels::RopeKind kind, size_t head_len,
                         size_t trained_context) {
  nn::RopeParams rope;
  rope.kind = kind;
  const size_t n_rot = meta.size_or("rope.dimension_count", head_len, kMaxWidth);
  if (n_rot % 2 != 0 || n_rot > head_len) {
    meta.refuse("rope.dimension_count", "is " + std::to_string(n_rot) +
                                            "; it should be even and at most a head's " +
                                            std::to_string(head_len));
  }
  rope.n_rot = static_cast<uint32_t>(n_rot);
  rope.base = meta.positive_or("rope.freq_base", kRopeBase);
  read_scaling(meta, trained_context, rope);
  return rope;
}

void read_axes(const Metadata& meta, bool interleaved, nn::RopeParams& rope) {
  constexpr size_t kAxes = 3;
  // The second and third names are those of Ollama's files.
  constexpr std::array kKeys = {"rope.dimension_sections", "rope.mrope_section", "mrope_sections"};
  const auto key = std::ranges::find_if(kKeys, [&](const char* name) { return meta.has(name); });
  // Ollama's older files of Qwen3-VL have pictures, but no sections.
  const bool is_old = meta.architecture().starts_with("qwen3vl") && meta.has("vision.block_count");
  std::vector<size_t> sections = {24, 20, 20};
  if (key != kKeys.end())
    sections = meta.per_layer(*key, kAxes, kMaxWidth);  // files have a fourth section, which is 0
  else if (!is_old)
    return;
  const size_t n_pairs = rope.n_rot / 2;
  if (sections[0] + sections[1] + sections[2] != n_pairs)
    meta.refuse(key != kKeys.end() ? *key : kKeys.front(),
                "does not add up to the " + std::to_string(n_pairs) + " pairs of a head");
  for (size_t pair = 0; pair < n_pairs; ++pair) {
    size_t axis = pair % kAxes;
    if (interleaved)
      axis = pair < kAxes * sections[axis] ? axis : 0;
    else
      axis = pair < sections[0] ? 0 : pair < sections[0] + sections[1] ? 1 : 2;
    rope.axes.push_back(static_cast<nn::RopeAxis>(axis));
  }
}

}  // namespace billow::arch
