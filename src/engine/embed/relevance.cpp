#include "engine/embed/relevance.h"

#include <string>
#include <string_view>

#include "arch/weights.h"
#include "base/error.h"

namespace billow::engine {
namespace {

constexpr const char* kTensor = "cls.output";

// Returns the row of "yes" if there are two. In files without label names it is the first.
size_t row_of_yes(const gguf::File& file) {
  const std::string key =
      std::string(file.require_string("general.architecture")) + ".classifier.output_labels";
  const gguf::Array* array = file.get_string_array(key);
  if (array == nullptr) return 0;
  const std::vector<std::string_view>& names = array->strings;
  if (names == std::vector<std::string_view>{"yes", "no"}) return 0;
  if (names == std::vector<std::string_view>{"no", "yes"}) return 1;
  throw Error(ErrorCode::kUnsupported,
              file.path() + ": key " + key + " should name the two labels yes and no");
}

}  // namespace

Relevance::Relevance(const gguf::File& file, size_t n_embd) : weights_(n_embd) {
  for (const char* const unused : {"cls.weight", "cls.norm.weight"}) {
    if (file.find_tensor(unused) == nullptr) continue;
    throw Error(ErrorCode::kUnsupported,
                file.path() + ": tensor " + unused + " is not supported in a decoder that ranks");
  }
  const std::string name = std::string(kTensor) + ".weight";
  const gguf::TensorInfo* info = file.find_tensor(name);
  const size_t n_labels = info == nullptr ? 1 : info->shape[1];
  if (n_labels != 1 && n_labels != 2) {
    throw Error(ErrorCode::kUnsupported, file.path() + ": tensor " + name + " has " +
                                             std::to_string(n_labels) +
                                             " labels; a decoder ranks by one, or by yes and no");
  }
  const arch::WeightLoader load(file, nullptr);
  tensor::Tensor rows;
  load.plain_matrix(name, rows, n_embd, n_labels);
  const float* bias = nullptr;
  load.vector(std::string(kTensor) + ".bias", bias, n_labels, arch::Presence::kOptional);
  const size_t yes = n_labels == 1 ? 0 : row_of_yes(file);
  std::vector<float> row(n_embd);
  for (size_t label = 0; label < n_labels; ++label) {
    const double sign = label == yes ? 1.0 : -1.0;
    quant::row(rows.type).decode(rows.row(label), n_embd, row.data());
    for (size_t i = 0; i < n_embd; ++i) weights_[i] += sign * static_cast<double>(row[i]);
    if (bias != nullptr) bias_ += sign * static_cast<double>(bias[label]);
  }
}

float Relevance::score(std::span<const float> hidden) const noexcept {
  double sum = bias_;
  for (size_t i = 0; i < weights_.size(); ++i) sum += weights_[i] * static_cast<double>(hidden[i]);
  return static_cast<float>(sum);
}

}  // namespace billow::engine
