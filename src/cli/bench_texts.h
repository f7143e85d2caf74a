// The part of `billow bench` that measures encoders.
#pragma once

#include <cstddef>
#include <optional>

#include "base/json_fwd.h"
#include "engine/engine.h"
#include "gguf/file.h"

namespace billow::cli {

struct TextBenchOptions {
  size_t n_tokens = 512;          // per text
  std::optional<size_t> n_texts;  // per pass; default: texts with 2048 tokens in total
  size_t n_runs = 5;
};

// Measures how many tokens per second an encoder embeds, with passes of random texts. Tokenizing,
// queue and server are not part of the measurement. Returns the object that `--json` prints. Throws
// Error if n_tokens is 0 or more than the model's maximum.
Json bench_texts(gguf::File file, const engine::EngineOptions& with,
                 const TextBenchOptions& options);

}  // namespace billow::cli
