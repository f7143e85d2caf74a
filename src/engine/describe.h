// What a model is and what memory it would take, from the header of its file: no weight is read.
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "arch/model.h"
#include "base/json_fwd.h"
#include "engine/embed/plan.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "kv/layout.h"

namespace billow::engine {

struct DescribeOptions {
  size_t n_parallel = 1;  // sequences of a step
  int n_threads = 0;      // as EngineOptions
  size_t max_context = 0;
  kernels::KvType kv_type = kernels::KvType::kInt16;
  EmbedSettings embed{};  // of passes over texts
};

struct Description {
  arch::ModelInfo model;
  kv::Layout layout;
  size_t max_context = 0;
  uint64_t file_bytes = 0;
  uint64_t mapped_bytes = 0;  // of the file, what is used beside packed weights
  uint64_t packed_bytes = 0;
  uint64_t scratch_bytes = 0;  // the most, at the greatest context; of an encoder, of its passes
  // As the file states it, of an encoder always there; empty: it is no embedding model.
  std::string pooling{};

  uint64_t weight_bytes() const noexcept { return mapped_bytes + packed_bytes; }
};

// Throws Error as loading would, for a file whose header or tensors are not those of a model.
Description describe(const gguf::File& file, const DescribeOptions& options);

// The most scratch memory of steps in which a sequence reaches n_positions; of an encoder, of
// passes.
uint64_t scratch_bytes(const gguf::File& file, const DescribeOptions& options, size_t n_positions);

// {"architecture","max_context","weight_bytes","scratch_bytes","kv_groups":[{"bytes_per_position",
// "window"}],"embedding_length","pooling"?,"is_embedding"}
Json description_json(const Description& description);

}  // namespace billow::engine
