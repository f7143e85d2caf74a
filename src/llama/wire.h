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
#include "context/prompt_image.h"
#include "engine/sampling/options.h"
#include "engine/sampling/sampler.h"

namespace billow::llama {

// An image of a prompt as llama-server takes it.
struct WireImage {
  size_t text_at = 0;  // bytes of the text before it
  std::string base64;  // of a PNG file
};

// The text of a prompt with images. llama-server takes images between texts alone, not between
// tokens. It makes the tokens itself, those of each text between two images apart.
struct WireText {
  std::string text;  // without a BOS that the vocabulary adds
  std::span<const WireImage> images{};
  std::string_view marker{};  // stands for an image in llama-server's text
};

// A stretch of an answer: the tokens that follow `tokens`.
struct Stretch {
  std::span<const int32_t> tokens{};
  std::optional<WireText> text{};  // in place of `tokens`
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
  std::optional<size_t> n_prompt{};     // all tokens of the prompt, with the rows of images
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
// Of an error that says that the prompt does not fit: how many tokens it has.
std::optional<size_t> length_in_error(std::string_view body);

// The marker of images that llama-server tells in its /props. Versions that tell none have
// "<__media__>".
std::string media_marker_of(std::string_view props);

// The body of POST /embedding, and the vectors in its answer, one for each text. parse_embeddings()
// throws Error (kInvalidInput) for another answer.
std::string embedding_body(std::span<const std::vector<int32_t>> texts);
std::vector<std::vector<float>> parse_embeddings(std::string_view body, size_t n_texts);

}  // namespace billow::llama
