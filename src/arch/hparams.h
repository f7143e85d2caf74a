// What a file's metadata says about a model, read and checked once for all architectures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "arch/model.h"
#include "gguf/file.h"
#include "nn/rope.h"

namespace billow::arch {

struct Hparams {
  std::string prefix;  // of the keys: "llama."
  size_t n_vocab = 0;
  size_t n_embd = 0;
  size_t n_layers = 0;
  size_t n_ff = 0;
  size_t n_heads = 0;
  size_t n_kv_heads = 0;
  size_t k_len = 0;  // of a head
  size_t v_len = 0;
  size_t max_context = 0;
  float norm_epsilon = 0.0f;
};

// Reads the keys that every decoder has. An Error names the key that is missing or makes no sense.
Hparams read_hparams(const gguf::File& file);

// The same for encoders, which have the epsilon of a layer norm, a key and a value head for each
// query head, and heads of any multiple of 8.
Hparams read_encoder_hparams(const gguf::File& file);

// Reads the rope keys, with `kind` and the default base of the architecture, and the tensors of
// frequency divisors.
nn::RopeParams read_rope(const gguf::File& file, const Hparams& hparams, kernels::RopeKind kind,
                         size_t max_context);

// What `h` says of a decoder whose layers keep all positions.
ModelInfo describe(std::string_view architecture, const Hparams& h);

// A number that may be given once or for each layer; an Error if the layers differ.
size_t uniform_uint(const gguf::File& file, const std::string& key);

// An Error of a key whose value makes no sense.
[[noreturn]] void refuse_key(const gguf::File& file, const std::string& key,
                             const std::string& why);

}  // namespace billow::arch
