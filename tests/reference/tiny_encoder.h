// Makes small random encoders as GGUF, complete with a tokenizer; otherwise as tiny_model.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quant/type.h"

namespace billow::reference {

struct TinyEncoderOptions {
  std::string architecture = "bert";     // or nomic-bert
  quant::Type type = quant::Type::kF32;  // of all matrices; vectors and positions are F32
  uint32_t n_layers = 3;
  uint32_t n_embd = 128;
  uint32_t n_ff = 256;
  uint32_t n_head = 4;
  uint32_t n_context = 128;             // the longest text
  uint32_t n_types = 2;                 // rows of segments; 0: no such tensor
  bool fused = false;                   // one matrix for q, k and v; nomic-bert always has one
  uint32_t n_labels = 0;                // a classifier with so many outputs
  bool dense = true;                    // which has a layer before them
  std::optional<uint32_t> pooling = 1;  // the pooling_type key
  uint64_t seed = 1;
};

// The bytes of a GGUF file. REQUIRES: n_head divides n_embd, and 8 its quotient.
std::vector<std::byte> make_tiny_encoder(const TinyEncoderOptions& options = {});

// The same into a file. Throws Error when it cannot be written.
void write_tiny_encoder(const TinyEncoderOptions& options, const std::string& path);

struct TinyEncoderVariant {
  std::string name;  // usable as a file name
  TinyEncoderOptions options;
};

// F32 models that between them use everything that an encoder may have.
std::vector<TinyEncoderVariant> tiny_encoder_variants();

}  // namespace billow::reference
