// The requests to llama-server and its answers, as JSON. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar.h"
#include "engine/sampling/options.h"
#include "engine/sampling/sampler.h"

namespace billow::llama {

// A stretch of an answer: the tokens that follow `tokens`.
struct Stretch {
  std::span<const int32_t> tokens{};
  size_t n_predict = 1;
  const engine::SamplingOptions* sampling = nullptr;
  int64_t seed = 0;
  bool ignore_eos = false;
  const constraint::Grammar* grammar = nullptr;  // from the first token on; null: none
};

// The body of POST /completion.
std::string stretch_body(const Stretch& stretch);

// Throws Error (kUnsupported), in one line that names the kind, for a grammar that llama-server
// does not know.
void check_grammar(const constraint::Grammar& grammar);

struct StretchEnd {
  bool is_end_token = false;  // the model ended its answer
};

// One event of the answer's stream.
struct StretchEvent {
  std::optional<size_t> n_evaluated{};  // tokens of the prompt so far, with those of the cache
  size_t n_cached = 0;                  // tokens of the prompt that were in the cache
  // The token that completes `text`. A token that ends within a character has no event of its own,
  // but n_tokens counts it.
  std::optional<engine::Sampled> token{};
  std::string text{};
  size_t n_tokens = 0;  // of this stretch, with this one
  std::optional<StretchEnd> end{};
};

// Throws Error: kIo with llama-server's message where the event is an error, kInvalidInput for what
// is no event.
StretchEvent parse_event(std::string_view data);

// The message in a body {"error":{"message":...}}; else the beginning of the body.
std::string error_text(std::string_view body);

// The body of POST /embedding, and the vectors in its answer, one for each text. parse_embeddings()
// throws Error (kInvalidInput) for another answer.
std::string embedding_body(std::span<const std::vector<int32_t>> texts);
std::vector<std::vector<float>> parse_embeddings(std::string_view body, size_t n_texts);

}  // namespace billow::llama
