// Calculates what a model is and how much memory it needs from the header of its file, without
// reading weights. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "arch/model.h"
#include "base/json_fwd.h"
#include "context/memory_need.h"
#include "engine/adapters.h"
#include "engine/embed/plan.h"
#include "engine/speculation/speculation.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "kv/layout.h"

namespace billow::engine {

struct DescribeOptions {
  size_t n_parallel = 1;  // sequences of a step
  int n_threads = 0;      // see EngineOptions
  size_t max_draft = kDefaultMaxDraft;
  size_t max_context = 0;
  kernels::KvType kv_type = kernels::KvType::kInt16;
  EmbedSettings embed{};  // for passes over texts
  AdapterFiles adapters{};
  // See EngineOptions. Reads only the file's header. The model's file must be open with its string
  // arrays.
  std::string draft_model{};
  std::string projector{};  // see EngineOptions; only its header is read
};

struct Description {
  arch::ModelInfo model;
  kv::Layout layout;
  size_t max_context = 0;
  uint64_t file_bytes = 0;
  uint64_t mapped_bytes = 0;  // bytes of the file that are used besides packed weights
  uint64_t packed_bytes = 0;
  uint64_t adapter_bytes = 0;    // of the adapters, not part of `memory`
  uint64_t draft_bytes = 0;      // weights of the draft model, part of `memory`
  uint64_t projector_bytes = 0;  // weights of the projector, part of `memory`
  bool encodes_pictures = false;
  context::MemoryNeed memory{};  // of an encoder: the scratch of its passes, and no KV
  // As the file states it; encoders always have one. Empty: no embedding model.
  std::string pooling{};
};

// Returns the description. Throws the same Error as loading if the header or the tensors are not
// those of a model.
Description describe(const gguf::File& file, const DescribeOptions& options);

// Returns {"weight_bytes","scratch":[{"positions","bytes"}],
// "kv_groups":[{"block_bytes","window","state_stride","draft_states"}],
// "block_positions","batch"}
Json memory_need_json(const context::MemoryNeed& need);

// Returns {"architecture","max_context","embedding_length","pooling"?,
// "is_embedding","adapter_bytes"?,"encodes_pictures"?,"memory": memory_need_json()}
Json description_json(const Description& description);

}  // namespace billow::engine
