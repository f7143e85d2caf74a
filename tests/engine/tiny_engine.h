// Creates engines from generated models, and computes logits.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "reference/tiny_model.h"

namespace billow::engine {

// Returns the options with one thread, unless a test has set a number. Two threads of a small model
// spend most of their time in waits for each other.
inline EngineOptions with_one_thread(EngineOptions options) {
  if (options.n_threads == 0) options.n_threads = 1;
  return options;
}

// A generated model file in memory, and an engine that runs it.
struct TinyEngine {
  explicit TinyEngine(const reference::TinyModelOptions& model, const EngineOptions& options = {})
      : bytes(reference::make_tiny_model(model)),
        engine(gguf::File::parse(bytes, "tiny.gguf"), with_one_thread(options)) {}
  std::vector<std::byte> bytes;
  Engine engine;
};

inline std::vector<int32_t> random_tokens(size_t n, int32_t n_vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random() % static_cast<unsigned>(n_vocab));
  return tokens;
}

// Options for greedy sampling of exactly `max_new_tokens` tokens.
inline SequenceOptions greedy(int64_t max_new_tokens) {
  SequenceOptions options;
  options.sampling.temperature = 0.0f;
  options.max_new_tokens = max_new_tokens;
  options.ignore_eos = true;
  return options;
}

// Returns the logits as [tokens.size() - first][n_vocab].
inline std::vector<float> logits_of(Engine& engine, std::span<const int32_t> tokens,
                                    size_t first = 0) {
  std::vector<float> all;
  engine.evaluate(tokens, first, [&](size_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
  });
  return all;
}

inline std::vector<const kernels::KernelTable*> usable_tables() {
  std::vector<const kernels::KernelTable*> usable;
  for (const kernels::KernelTable* table : kernels::tables()) {
    if (table->supported(cpu::features())) usable.push_back(table);
  }
  return usable;
}

// Returns the processor's best table without separate kernels for rows that are read. With it, no
// bit depends on whether the KV of an earlier answer is cached (docs/elastic-context.md).
inline const kernels::KernelTable* uniform_table() {
  for (const kernels::KernelTable* table : kernels::tables())
    if (!table->has_read_kernels && !table->is_for_encoders && table->preferred(cpu::features()))
      return table;
  return kernels::tables().back();
}

}  // namespace billow::engine
