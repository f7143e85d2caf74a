// The hyperparameters of a forward pass, read from the metadata of a GGUF model, with llama.cpp's
// defaults. Immutable after reading.
#pragma once

#include <cstdint>
#include <vector>

#include "gguf/file.h"
#include "reference/rope.h"

namespace billow::reference {

struct Hyperparameters {
  uint64_t n_layers = 0;
  uint64_t n_embd = 0;
  uint64_t n_ff = 0;
  uint64_t n_head = 0;
  uint64_t n_head_kv = 0;
  uint64_t key_length = 0;    // elements of a query or key head
  uint64_t value_length = 0;  // elements of a value head
  double norm_epsilon = 0;
  double attention_scale = 0;  // factor of query times key
  double embedding_scale = 1;
  double attention_softcap = 0;       // 0: none
  double final_softcap = 0;           // 0: none
  bool gelu = false;                  // GEGLU; false: SwiGLU
  Rope rope;                          // of global layers
  Rope rope_local;                    // of local layers
  uint64_t window = 0;                // tokens that a local layer sees, itself included
  std::vector<bool> local;            // by layer
  std::vector<float> divisors_short;  // LongRoPE: up to the original context
  std::vector<float> divisors_long;   // LongRoPE: beyond it
};

// Reads the hyperparameters. Throws Error if the architecture is not llama, qwen2 or gemma3, or if
// a key is missing.
Hyperparameters read_hyperparameters(const gguf::File& file);

}  // namespace billow::reference
