// Calculates the memory that llama-server needs for a model, from the header of the GGUF file.
// Billow does not need to support the architecture. Only reads the file. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "context/memory_need.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "llama/projector.h"

namespace billow::llama {

// Positions per KV block of llama-server.
inline constexpr size_t kCellBlock = 256;
// Max rows of one llama-server batch, for a generating model.
inline constexpr size_t kBatch = 512;
// llama-server evaluates a text to embed in one batch, and rejects longer texts.
inline constexpr size_t kMaxEmbeddingBatch = 8192;

struct FactsOptions {
  size_t n_parallel = 1;       // concurrent answers
  size_t max_context = 0;      // 0: the model's
  uint64_t adapter_bytes = 0;  // total size of the adapter files, which count as weights
  kernels::KvType kv_type = kernels::KvType::kInt16;
};

struct Facts {
  std::string architecture;
  size_t max_context = 0;  // for an embedding model: max tokens of a text
  size_t n_batch = kBatch;
  size_t embedding_length = 0;
  std::string pooling{};  // as in the file; empty: the file names no pooling
  // The size of the weights is the size of the file. The KV of a layer has KV heads x (key length +
  // value length) values. A value has 2 or 4 bytes, 34/32 for q8_0, or 18/32 for q4_0. If the file
  // does not state the number of KV heads, the number of heads replaces it. The estimate may then
  // be too high. The scratch size is an estimate, too. llama-server logs the true size after it has
  // loaded the model.
  context::MemoryNeed memory{};
};

// Calculates the facts, including the memory of `projector`, which may be null. Throws Error
// (kInvalidInput) for a file that is not a language model, such as an adapter.
Facts facts_of(const gguf::File& file, const FactsOptions& options,
               const Projector* projector = nullptr);

}  // namespace billow::llama
