// An engine loop on a generated model, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/tiny_engine.h"
#include "runner/engine_loop.h"

namespace billow::runner {

struct TinyLoop {
  explicit TinyLoop(const LoopOptions& options = {}, const engine::EngineOptions& engine = {})
      : bytes(reference::make_tiny_model({.architecture = "llama", .n_context = 1024})),
        loop(std::make_unique<engine::Engine>(gguf::File::parse(bytes, "tiny.gguf"), engine),
             options) {}
  std::vector<std::byte> bytes;
  EngineLoop loop;
};

inline AnswerRequest request(unsigned seed, int64_t n_tokens, size_t n_prompt = 20) {
  return {.prompt = engine::random_tokens(n_prompt, 300, seed),
          .options = engine::greedy(n_tokens),
          .stop = {}};
}

// A request that only a cancellation or the end of the loop ends.
inline AnswerRequest endless_request(unsigned seed) {
  AnswerRequest endless = request(seed, -1);
  endless.options.context.policy = context::OverflowPolicy::kShift;
  return endless;
}

struct Whole {
  std::string text;
  std::vector<int32_t> tokens;
  size_t n_texts = 0;  // number of pieces with text
};

inline Whole read(RequestStream& answer) {
  Whole whole;
  while (const std::optional<Chunk> piece = answer.next()) {
    whole.text += piece->text;
    whole.n_texts += piece->text.empty() ? 0 : 1;
  }
  whole.tokens = answer.end().tokens;
  return whole;
}

}  // namespace billow::runner
