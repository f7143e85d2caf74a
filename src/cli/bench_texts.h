// The part of `billow bench` that measures encoders.
#pragma once

#include <cstddef>
#include <optional>

#include "base/json_fwd.h"
#include "engine/engine.h"
#include "gguf/file.h"

namespace billow::cli {

struct TextBenchOptions {
  size_t n_tokens = 512;          // of each text
  std::optional<size_t> n_texts;  // of a pass; else as many as have 2048 tokens together
  size_t n_runs = 5;
};

// Tokens a second of passes of random texts, by an encoder alone: without tokenizing, a queue or a
// server. The object is what `--json` prints. Throws Error where a text is longer than the model
// takes.
Json bench_texts(gguf::File file, const engine::EngineOptions& with,
                 const TextBenchOptions& options);

}  // namespace billow::cli
