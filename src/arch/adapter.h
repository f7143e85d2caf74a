// Adapters (LoRA) of GGUF files, as llama.cpp's convert_lora_to_gguf writes them: for each matrix X
// of a model that they change, X.lora_a [rank][inputs] and X.lora_b [outputs][rank].
//
//   out += scale * alpha / rank * lora_b (lora_a x)
//
// Where alpha is 0 or missing, the factor is the scale alone. Any family can have adapters: a pair
// is found by where the matrix lies in the model's file, so a matrix that the model cuts (Q, K and
// V in one tensor, experts) takes its part of the pair.
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

// What adapters add to: a model's file, and the matrices that its passes multiply with
// (LoadOptions::matrices).
struct AdapterBase {
  const gguf::File& file;
  std::span<const tensor::Tensor> matrices;
};

struct AdapterSource {
  const gguf::File* file = nullptr;
  float scale = 1.0f;  // times that of the file
};

struct AdapterNeed {
  uint64_t bytes = 0;  // of memory while it is loaded
  size_t rank = 0;     // the greatest of its pairs: scratch depends on it
};

// Whether the file says that it is an adapter.
bool is_adapter(const gguf::File& file);

// What these adapters together take, from headers alone. Throws Error naming file and tensor where
// a file is no adapter for the model: of another architecture or kind, with tensors that the model
// lacks, does not multiply with, or has in another shape, or with half of a pair.
AdapterNeed adapter_need(const AdapterBase& base, std::span<const AdapterSource> sources);

// Loads them as one: the sum of what they add. The files are not used any more afterwards; the
// model's matrices are known by where they lie. Throws Error as adapter_need(), for values that are
// no numbers, and kOutOfMemory.
std::unique_ptr<const nn::Adapter> load_adapter(const AdapterBase& base,
                                                std::span<const AdapterSource> sources,
                                                const kernels::KernelTable& kernels);

}  // namespace billow::arch
