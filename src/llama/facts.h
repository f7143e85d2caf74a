// The memory that llama-server takes for a model, calculated from the header of the GGUF file.
// Billow need not know the architecture. Reads the file and changes nothing; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "context/memory_need.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "llama/projector.h"

namespace billow::llama {

// llama-server keeps KV in blocks of so many positions.
inline constexpr size_t kCellBlock = 256;
// Rows that llama-server evaluates at once for a model that writes.
inline constexpr size_t kBatch = 512;
// llama-server evaluates a text to embed in one batch. Longer texts are refused.
inline constexpr size_t kMaxEmbeddingBatch = 8192;

struct FactsOptions {
  size_t n_parallel = 1;       // answers at once
  size_t max_context = 0;      // 0: the model's
  uint64_t adapter_bytes = 0;  // of the files of adapters: they count as weights
  kernels::KvType kv_type = kernels::KvType::kInt16;
};

struct Facts {
  std::string architecture;
  size_t max_context = 0;  // tokens of a text, for an embedding model
  size_t n_batch = kBatch;
  size_t embedding_length = 0;
  std::string pooling{};  // as the file states it; empty: the file states none
  // Weights count as many bytes as the file has. The KV of a layer is
  // KV heads x (key length + value length) values of 2 or 4 bytes, or of 34/32 bytes for q8_0. A
  // file that does not give the number of KV heads counts as if each head were one: the estimate is
  // rather too high. The scratch is an estimate, too. llama-server logs its true size when it has
  // loaded the model.
  context::MemoryNeed memory{};
};

// With what `projector` takes; null: there is none. Throws Error (kInvalidInput) for a file that is
// no language model, such as an adapter.
Facts facts_of(const gguf::File& file, const FactsOptions& options,
               const Projector* projector = nullptr);

}  // namespace billow::llama
