// The sizes of an encoder, as its file's metadata says.
#pragma once

#include <cstddef>

#include "arch/metadata.h"

namespace billow::arch {

struct EncoderHparams {
  size_t n_vocab = 0;
  size_t n_embd = 0;
  size_t n_layers = 0;
  size_t n_ff = 0;
  size_t n_heads = 0;
  size_t head_len = 0;
  size_t max_context = 0;
  float norm_epsilon = 0.0f;
};

// An Error names the key that is missing or makes no sense. Encoders have a key and a value head
// for each query head, all of one length, which is any multiple of 8.
EncoderHparams read_encoder_hparams(const Metadata& meta);

}  // namespace billow::arch
