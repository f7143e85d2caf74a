#include "engine/importance.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "nn/compute.h"

namespace billow::engine {
namespace {

constexpr size_t kChunk = 512;

// Sums the squares of inputs, by the tensor of the file that contains the weight.
class Collector final : public nn::ProductListener {
 public:
  Collector(const gguf::File& file, bool output_weights) {
    for (const gguf::TensorInfo& info : file.tensors()) {
      const bool wanted =
          info.name.starts_with("blk.") || (output_weights && info.name == "output.weight");
      if (wanted && info.n_dims >= 2) tensors_.push_back(&info);
    }
    std::ranges::sort(tensors_, {}, begin_of);
  }

  void multiplied(const tensor::Tensor& weight, const float* const* rows, size_t n) override {
    const gguf::TensorInfo* info = find(weight.data);
    if (info == nullptr) return;
    const size_t n_matrices = static_cast<size_t>(info->shape[2] * info->shape[3]);
    const size_t matrix_bytes = info->data.size() / n_matrices;
    const auto offset = static_cast<size_t>(weight.data - info->data.data());
    // The rows of one matrix may be the weights of several products with the same input.
    if (offset % matrix_bytes != 0) return;
    quantize::ImportanceSums::Entry& entry = sums_.entries[info->name];
    const bool is_routed = info->name.find("_exps") != std::string::npos;
    if (entry.sums.empty()) {
      entry.sums.resize(weight.n_cols * n_matrices);
      entry.counts.resize(is_routed ? n_matrices : 1);
    }
    const size_t matrix = offset / matrix_bytes;
    float* sums = entry.sums.data() + matrix * weight.n_cols;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < weight.n_cols; ++j) sums[j] += rows[i][j] * rows[i][j];
    }
    // Matrices that each see all tokens have one count.
    if (is_routed || matrix == 0) entry.counts[is_routed ? matrix : 0] += static_cast<float>(n);
  }

  quantize::ImportanceSums& sums() noexcept { return sums_; }

 private:
  static const std::byte* begin_of(const gguf::TensorInfo* info) { return info->data.data(); }

  const gguf::TensorInfo* find(const std::byte* data) const {
    const auto after = std::ranges::upper_bound(tensors_, data, {}, begin_of);
    if (after == tensors_.begin()) return nullptr;
    const gguf::TensorInfo* info = *(after - 1);
    return data < info->data.data() + info->data.size() ? info : nullptr;
  }

  std::vector<const gguf::TensorInfo*> tensors_;  // sorted by address
  quantize::ImportanceSums sums_;
};

void check_finite(const quantize::ImportanceSums& sums) {
  for (const auto& [name, entry] : sums.entries) {
    if (std::ranges::all_of(entry.sums, [](float sum) { return std::isfinite(sum); })) continue;
    throw Error(ErrorCode::kUnsupported,
                "the inputs of '" + name + "' are not finite; the model's file may be damaged");
  }
}

// Sets the listener, and removes it at the end of the scope.
class Listening {
 public:
  Listening(Engine& engine, nn::ProductListener& listener) : engine_(engine) {
    engine.listen_to_products(&listener);
  }
  ~Listening() { engine_.listen_to_products(nullptr); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  Engine& engine_;
};

}  // namespace

quantize::ImportanceSums measure_importance(
    Engine& engine, std::span<const int32_t> tokens, const ImportanceOptions& options,
    const std::function<void(size_t n_done, size_t n_chunks)>& progress) {
  if (engine.max_context() < kChunk) {
    throw Error(ErrorCode::kUnsupported,
                "the model's context is shorter than the chunks of 512 tokens");
  }
  if (tokens.size() < 2 * kChunk) {
    throw Error(ErrorCode::kInvalidInput, "the text has " + std::to_string(tokens.size()) +
                                              " tokens, but at least 1024 are needed; give a "
                                              "longer text");
  }
  size_t n_chunks = tokens.size() / kChunk;
  if (options.n_chunks != 0) n_chunks = std::min(n_chunks, options.n_chunks);
  Collector collector(engine.file(), options.output_weights);
  const Listening listening(engine, collector);
  progress(0, n_chunks);
  for (size_t chunk = 0; chunk < n_chunks; ++chunk) {
    const std::span<const int32_t> part = tokens.subspan(chunk * kChunk, kChunk);
    std::vector<int32_t> own(part.begin(), part.end());
    if (engine.tokenizer().add_bos()) own[0] = engine.tokenizer().bos();
    // All logits, so that the last block is calculated for all tokens.
    engine.evaluate(own, 0, [](size_t, std::span<const float>) {});
    check_finite(collector.sums());
    progress(chunk + 1, n_chunks);
  }
  quantize::ImportanceSums sums = std::move(collector.sums());
  if (sums.entries.empty()) {
    throw Error(ErrorCode::kUnsupported, "none of the model's products could be measured");
  }
  sums.n_chunks = static_cast<uint32_t>(n_chunks);
  sums.chunk_size = kChunk;
  return sums;
}

}  // namespace billow::engine
