#include "store/adapter_file.h"

#include <cmath>
#include <span>
#include <string_view>

#include "base/error.h"
#include "gguf/writer.h"

namespace billow::store {
namespace {

constexpr std::string_view kAlpha = "adapter.lora.alpha";

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kInvalidInput, why); }

// Returns the common rank of all pairs, for an adapter without an alpha. Such an adapter is
// multiplied by the scale alone, and an alpha equal to the rank has the same effect.
float common_rank(const std::string& name, const gguf::File& adapter) {
  uint64_t rank = 0;
  for (const gguf::TensorInfo& tensor : adapter.tensors()) {
    if (!tensor.name.ends_with(".lora_b")) continue;
    if (rank != 0 && tensor.shape[0] != rank)
      refuse(name + ": cannot scale an adapter without an alpha and with several ranks");
    rank = tensor.shape[0];
  }
  return static_cast<float>(rank);
}

}  // namespace

void check_adapter(const std::string& name, const GgufFacts& adapter, const GgufFacts& model) {
  if (adapter.kind != "adapter")
    refuse(name + ": this GGUF file is not an adapter: its kind is \"" + adapter.kind + "\"");
  if (adapter.architecture == model.architecture) return;
  refuse(name + ": this is an adapter for models of the architecture \"" + adapter.architecture +
         "\", but the model is of \"" + model.architecture + "\"");
}

void write_scaled_adapter(const std::string& name, const gguf::File& adapter, float scale,
                          const ByteSink& sink) {
  if (!std::isfinite(scale) || scale == 0.0f)
    refuse(name + ": the scale of an adapter must be a number other than 0");
  gguf::Writer writer;
  for (const gguf::Entry& entry : adapter.metadata()) writer.set(entry.key, entry.value);
  const auto alpha = static_cast<float>(adapter.get_float(kAlpha).value_or(0.0));
  writer.set_float(kAlpha, scale * (alpha == 0.0f ? common_rank(name, adapter) : alpha));
  for (const gguf::TensorInfo& tensor : adapter.tensors())
    writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(tensor.n_dims),
                      [&](const gguf::Writer::Sink& out) { adapter.read_tensor(tensor, out); });
  writer.write_to(sink);
}

}  // namespace billow::store
