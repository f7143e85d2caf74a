// Decides how many texts share a pass, by their tokens: sizes and their defaults, the tokens of the
// next pass, how many passes start, and retries after a lack of memory. Pure: no threads and no
// clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace billow::engine {

// Settings as given; resolve_sizes() chooses the missing ones.
struct EmbedSettings {
  std::optional<size_t> n_batch{};
  std::optional<size_t> n_ubatch{};
  std::optional<size_t> n_seq_max{};
  std::optional<size_t> context_size{};
  std::optional<size_t> max_batches{};
};

struct EmbedSizes {
  size_t n_batch = 2048;       // max tokens of a pass
  size_t n_ubatch = 2048;      // max tokens of a text, which cannot be split
  size_t n_seq_max = 64;       // initial buffer size in texts; the buffers can grow
  size_t context_size = 8192;  // max tokens of all passes in flight
  size_t max_batches = 1;      // max passes in flight, if context_size allows them
};

// Min tokens of a pass that is retried after a lack of memory.
inline constexpr size_t kMinRetryTokens = 64;

// Chooses missing sizes: n_batch 2048, n_seq_max 64, max_batches 1, context_size the larger of 4 x
// n_batch and the model's maximum. n_ubatch is n_batch if that is given, else the model's maximum.
// The maximum may exceed n_batch: such a text has a pass for itself. Throws Error (kInvalidInput)
// with the values for a zero, n_ubatch above n_batch, or n_batch above context_size.
EmbedSizes resolve_sizes(const EmbedSettings& settings, size_t model_max);
// Returns, for example, "n_batch=2048, n_ubatch=2048, n_seq_max=64, context_size=8192,
// max_batches=1".
std::string sizes_line(const EmbedSizes& sizes);
// Returns the max tokens of a text, with special tokens.
size_t text_limit(const EmbedSizes& sizes, size_t model_max) noexcept;

// Size of the next pass, and the reason.
struct PassSizing {
  enum class Load : uint8_t {
    kIdle,   // no text is queued
    kLight,  // less than n_batch is queued: all of it
    kHeavy,  // n_batch, if the context has space
    kFull,   // the free space of the context
  };
  size_t pending = 0;    // queued tokens
  size_t active = 0;     // tokens in flight
  size_t available = 0;  // free tokens of the context
  size_t tokens = 0;     // of the pass; 0: no pass can start
  Load load = Load::kIdle;
  bool operator==(const PassSizing&) const = default;
};
PassSizing size_pass(const EmbedSizes& sizes, size_t pending, size_t active) noexcept;
// Returns, for example, "pending=5000 active=1000 available=7192 n_batch=2048: 2048 tokens (heavy
// load, ...)".
std::string sizing_line(const PassSizing& sizing, const EmbedSizes& sizes);
inline size_t pass_tokens(const EmbedSizes& sizes, size_t pending, size_t active) noexcept {
  return size_pass(sizes, pending, active).tokens;
}
// Returns how many full passes fit into the context.
size_t max_passes(const EmbedSizes& sizes) noexcept;
// Returns the threads of each pass if max_batches passes divide them: 1 or more.
std::vector<size_t> threads_of_passes(const EmbedSizes& sizes, size_t n_threads);
// Returns how many full passes start in addition to the running ones; 0 if one pass at a time is
// enough.
size_t passes_to_start(const EmbedSizes& sizes, size_t pending, size_t n_running) noexcept;

// Returns how many of the first texts fit into a pass of `tokens` tokens: at least one, which may
// be longer. REQUIRES: `lengths` is not empty.
size_t n_that_fit(std::span<const size_t> lengths, size_t tokens) noexcept;

// Returns the tokens of the next attempt after the n_attempts-th one lacked memory: half, but at
// least kMinRetryTokens. Returns nullopt after the last attempt.
std::optional<size_t> retry_tokens(size_t tokens, size_t n_attempts, size_t max_attempts) noexcept;

// Limits later passes after several passes in a row lacked memory at first.
class PassCeiling {
 public:
  static constexpr size_t kRetriesToDrop = 3;
  static constexpr size_t kCleanToDouble = 16;

  explicit PassCeiling(size_t n_batch) noexcept : n_batch_(n_batch), tokens_(n_batch) {}
  // Max tokens of a pass, except for one longer text.
  size_t tokens() const noexcept { return tokens_; }
  // Records a retried pass. `good`: the last size that had enough memory (0: none).
  void retried(size_t good) noexcept;
  void clean() noexcept;  // records a pass without a lack of memory

 private:
  size_t n_batch_;
  size_t tokens_;
  size_t n_retried_ = 0;  // in a row
  size_t n_clean_ = 0;
};

}  // namespace billow::engine
