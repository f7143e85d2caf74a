// The requests to llama-server and its responses, as JSON. Pure functions, thread-safe.
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

// An image of a prompt, in llama-server's format.
struct WireImage {
  size_t text_at = 0;  // bytes of text before the image
  std::string base64;  // a PNG file
};

// The text of a prompt with images. llama-server accepts images only between texts, not between
// tokens. It tokenizes each text between two images separately.
struct WireText {
  std::string text;  // without the BOS that the vocabulary adds
  std::span<const WireImage> images{};
  std::string_view marker{};  // represents an image in llama-server's text
};

// A stretch is the part of an answer that one request to llama-server writes. It follows `tokens`.
struct Stretch {
  std::span<const int32_t> tokens{};
  std::optional<WireText> text{};  // in place of `tokens`
  size_t n_predict = 1;
  const engine::SamplingOptions* sampling = nullptr;
  int64_t seed = 0;
  bool ignore_eos = false;
  const constraint::Grammar* grammar = nullptr;  // from the first token on; null: no grammar
  bool reads_cache = true;  // llama-server may continue from a text that it has in its cache
};

// Returns the body of POST /completion.
std::string stretch_body(const Stretch& stretch);

// Throws Error (kUnsupported) if llama-server does not support this kind of grammar. The message
// has one line and names the kind.
void check_grammar(const constraint::Grammar& grammar);

struct StretchEnd {
  bool is_end_token = false;  // the model ended its answer
};

// One event of the response stream.
struct StretchEvent {
  std::optional<size_t> n_evaluated{};  // tokens of the prompt so far, including cached ones
  size_t n_cached = 0;                  // cached tokens of the prompt
  std::optional<size_t> n_prompt{};     // all tokens of the prompt, including rows of images
  // The token that completes `text`. A token that ends within a character has no event, but
  // n_tokens counts it.
  std::optional<engine::Sampled> token{};
  std::string text{};
  size_t n_tokens = 0;  // tokens of this stretch, including this one
  std::optional<StretchEnd> end{};
};

// Parses an event. Throws Error kIo with llama-server's message if the event is an error. Throws
// Error kInvalidInput for an invalid event.
StretchEvent parse_event(std::string_view data);

// Returns the message of a body {"error":{"message":...}}, else the beginning of the body.
std::string error_text(std::string_view body);
// Returns the number of tokens in an error about a prompt that does not fit.
std::optional<size_t> length_in_error(std::string_view body);

// Returns the image marker in llama-server's /props. Versions that do not report a marker use
// "<__media__>".
std::string media_marker_of(std::string_view props);

// Returns the body of POST /embedding.
std::string embedding_body(std::span<const std::vector<int32_t>> texts);
// Returns the vectors of the response, one per text. Throws Error (kInvalidInput) for an invalid
// response.
std::vector<std::vector<float>> parse_embeddings(std::string_view body, size_t n_texts);

}  // namespace billow::llama
