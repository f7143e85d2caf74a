// What the metadata of a GGUF model says about its forward pass, with the defaults that llama.cpp
// applies. Read once; immutable afterwards.
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
  double attention_scale = 0;  // of query times key
  double embedding_scale = 1;
  double attention_softcap = 0;       // 0: none
  double final_softcap = 0;           // 0: none
  bool gelu = false;                  // GEGLU; false: SwiGLU
  Rope rope;                          // of layers that see everything
  Rope rope_local;                    // of layers that see a window
  uint64_t window = 0;                // tokens that a local layer sees, itself included
  std::vector<bool> local;            // by layer
  std::vector<float> divisors_short;  // LongRoPE: up to the original context
  std::vector<float> divisors_long;   // LongRoPE: beyond it
};

// Throws Error for an architecture other than llama, qwen2 and gemma3, and for a missing key.
Hyperparameters read_hyperparameters(const gguf::File& file);

}  // namespace billow::reference
