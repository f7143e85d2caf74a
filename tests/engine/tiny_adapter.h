// Makes adapters with random values for generated models. Their files are in a folder that the
// destructor of TinyAdapters removes.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "gguf/file.h"
#include "gguf/writer.h"

namespace billow::engine {

struct TinyAdapterOptions {
  size_t rank = 4;
  float alpha = 8.0f;
  float size = 0.3f;  // standard deviation of the elements of B
  uint64_t seed = 1;
  // Returns whether a tensor of the model gets a pair. If empty, all matrices of the layers and the
  // output get one.
  std::function<bool(const std::string& name)> changes = {};
};

class TinyAdapters {
 public:
  // The values of one low-rank pair, as floats.
  struct Pair {
    size_t rank = 0;
    std::vector<float> a;  // [rank][inputs]; of token_embd [tokens][rank]
    std::vector<float> b;  // [outputs][rank]
  };
  struct Made {
    std::string path;
    float factor = 1.0f;  // alpha / rank
    std::map<std::string, Pair> pairs;
  };

  Made make(const gguf::File& model, const TinyAdapterOptions& options = {}) {
    Made made;
    made.factor = options.alpha / static_cast<float>(options.rank);
    std::mt19937_64 random(options.seed);
    std::normal_distribution<float> normal;
    gguf::Writer writer;
    writer.set_string("general.type", "adapter");
    writer.set_string("general.architecture", model.require_string("general.architecture"));
    writer.set_string("adapter.type", "lora");
    writer.set_float("adapter.lora.alpha", options.alpha);
    for (const gguf::TensorInfo& tensor : model.tensors()) {
      const bool is_matrix = tensor.n_dims == 2 && tensor.shape[1] > 1;
      const bool is_usual = tensor.name.starts_with("blk.") || tensor.name == "output.weight";
      if (!is_matrix || !(options.changes ? options.changes(tensor.name) : is_usual)) continue;
      const bool is_table = tensor.name == "token_embd.weight";
      Pair& pair = made.pairs[tensor.name];
      pair.rank = options.rank;
      const size_t n_in = is_table ? tensor.shape[1] : tensor.shape[0];
      const size_t n_out = is_table ? tensor.shape[0] : tensor.shape[1];
      pair.a.resize(options.rank * n_in);
      pair.b.resize(n_out * options.rank);
      const float size_a = is_table ? 1.0f : 1.0f / std::sqrt(static_cast<float>(n_in));
      for (float& value : pair.a) value = normal(random) * size_a;
      for (float& value : pair.b) value = normal(random) * options.size;
    }
    for (const auto& [name, pair] : made.pairs) {
      const bool is_table = name == "token_embd.weight";
      const uint64_t rank = pair.rank;
      const uint64_t n_in = pair.a.size() / rank;
      const uint64_t n_out = pair.b.size() / rank;
      const uint64_t of_a[] = {is_table ? rank : n_in, is_table ? n_in : rank};
      const uint64_t of_b[] = {rank, n_out};
      writer.add_tensor(name + ".lora_a", 0, of_a, std::as_bytes(std::span(pair.a)));
      writer.add_tensor(name + ".lora_b", 0, of_b, std::as_bytes(std::span(pair.b)));
    }
    made.path = new_path();
    writer.write(made.path);
    return made;
  }
  std::string new_path() { return folder_.file(std::to_string(++n_made_) + ".gguf"); }

 private:
  TestFolder folder_;
  size_t n_made_ = 0;
};

// Returns the model's file with the adapters merged into its weights. REQUIRES: the weights are
// F32.
inline std::vector<std::byte> merged(const gguf::File& model,
                                     const std::vector<TinyAdapters::Made>& adapters) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : model.metadata()) writer.set(entry.key, entry.value);
  std::vector<std::vector<float>> all;
  all.reserve(model.tensors().size());
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    std::vector<float>& values = all.emplace_back(tensor.n_elements());
    std::copy_n(tensor.data.data(), tensor.data.size(),
                reinterpret_cast<std::byte*>(values.data()));
    for (const TinyAdapters::Made& adapter : adapters) {
      const auto found = adapter.pairs.find(tensor.name);
      if (found == adapter.pairs.end()) continue;
      const TinyAdapters::Pair& pair = found->second;
      const bool is_table = tensor.name == "token_embd.weight";
      const size_t n_cols = tensor.shape[0];
      for (size_t row = 0; row < tensor.shape[1]; ++row) {
        for (size_t col = 0; col < n_cols; ++col) {
          double sum = 0.0;
          for (size_t j = 0; j < pair.rank; ++j) {
            const float a = is_table ? pair.a[row * pair.rank + j] : pair.a[j * n_cols + col];
            const float b = pair.b[(is_table ? col : row) * pair.rank + j];
            sum += static_cast<double>(a) * static_cast<double>(b);
          }
          values[row * n_cols + col] += adapter.factor * static_cast<float>(sum);
        }
      }
    }
    writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(tensor.n_dims),
                      std::as_bytes(std::span(values)));
  }
  return writer.to_bytes();
}

}  // namespace billow::engine
