// Adapters (LoRA) in GGUF files, as llama.cpp's convert_lora_to_gguf writes them. For each matrix X
// that an adapter changes, the file has X.lora_a [rank][inputs] and X.lora_b [outputs][rank].
//
//   out += scale * alpha / rank * lora_b (lora_a x)
//
// If alpha is 0 or missing, the factor is the scale alone. Adapters work with every family: the
// address of a matrix in the model's file identifies its pair. If the model cuts a tensor into
// several matrices (Q, K and V in one tensor, experts), each matrix gets its part of the pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "nn/adapter.h"
#include "tensor/tensor.h"

namespace billow::arch {

// The base of an adapter: the model's file, and the matrices that its passes multiply with
// (LoadOptions::matrices).
struct AdapterBase {
  const gguf::File& file;
  std::span<const tensor::Tensor> matrices;
};

struct AdapterSource {
  const gguf::File* file = nullptr;
  float scale = 1.0f;  // multiplied with the file's own factor
};

struct AdapterNeed {
  uint64_t bytes = 0;  // memory while the adapter is loaded
  size_t rank = 0;     // max rank of its pairs; scratch memory depends on it
};

// Returns whether the file is an adapter.
bool is_adapter(const gguf::File& file);

// Returns what these adapters need together, from headers alone. Throws Error naming file and
// tensor if a file is not an adapter for this model. That is a file of another architecture or
// adapter type, a file with half of a pair, or a tensor that the model lacks, does not multiply
// with, or has in another shape.
AdapterNeed adapter_need(const AdapterBase& base, std::span<const AdapterSource> sources);

// Loads the adapters as one, which adds the sum of what they add. The files are not needed after
// the call. The addresses of the model's matrices identify them. Throws Error as adapter_need()
// does, also for values that are not finite, and kOutOfMemory.
std::unique_ptr<const nn::Adapter> load_adapter(const AdapterBase& base,
                                                std::span<const AdapterSource> sources,
                                                const kernels::KernelTable& kernels);

}  // namespace billow::arch
