// How many texts share a pass, by their tokens: sizes and their meaning, the tokens of the next
// pass, how many passes begin at once, and what is tried when memory is short. Pure: no threads and
// no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace billow::engine {

// As they were given; what was not is chosen.
struct EmbedSettings {
  std::optional<size_t> n_batch{};
  std::optional<size_t> n_ubatch{};
  std::optional<size_t> n_seq_max{};
  std::optional<size_t> context_size{};
  std::optional<size_t> max_batches{};
};

struct EmbedSizes {
  size_t n_batch = 2048;       // tokens that share a pass
  size_t n_ubatch = 2048;      // of the longest text, which cannot be divided
  size_t n_seq_max = 64;       // texts that buffers are made for; more make them grow
  size_t context_size = 8192;  // tokens of all passes in flight together
  size_t max_batches = 1;      // passes in flight, as far as the context has room for them
};

// The smallest that a pass is cut to where memory is short.
inline constexpr size_t kMinRetryTokens = 64;

// Those not given: n_batch 2048, n_seq_max 64, max_batches 1, context_size the greater of 4 x
// n_batch and the model's maximum; n_ubatch as n_batch where that is given, else all that the model
// takes, be it more than n_batch: such a text has a pass of its own. Throws Error (kInvalidInput)
// naming the values of a zero, of n_ubatch above n_batch, and of n_batch above context_size.
EmbedSizes resolve_sizes(const EmbedSettings& settings, size_t model_max);
// "n_batch=2048, n_ubatch=2048, n_seq_max=64, context_size=8192, max_batches=1"
std::string sizes_line(const EmbedSizes& sizes);
// Tokens that a text may have, special ones included.
size_t text_limit(const EmbedSizes& sizes, size_t model_max) noexcept;

// How large the next pass is, and why.
struct PassSizing {
  enum class Load : uint8_t {
    kIdle,   // nothing waits
    kLight,  // less than n_batch waits: all of it
    kHeavy,  // n_batch, for which the context has room
    kFull,   // what the context has room for
  };
  size_t pending = 0;    // tokens that wait
  size_t active = 0;     // tokens in flight
  size_t available = 0;  // of the context
  size_t tokens = 0;     // of the pass; 0: none can begin
  Load load = Load::kIdle;
  bool operator==(const PassSizing&) const = default;
};
PassSizing size_pass(const EmbedSizes& sizes, size_t pending, size_t active) noexcept;
// "pending=5000 active=1000 available=7192 n_batch=2048: 2048 tokens (heavy load, ...)"
std::string sizing_line(const PassSizing& sizing, const EmbedSizes& sizes);
inline size_t pass_tokens(const EmbedSizes& sizes, size_t pending, size_t active) noexcept {
  return size_pass(sizes, pending, active).tokens;
}
// Full passes that the context has room for.
size_t max_passes(const EmbedSizes& sizes) noexcept;
// The threads of each pass if max_batches passes share them: 1 or more.
std::vector<size_t> threads_of_passes(const EmbedSizes& sizes, size_t n_threads);
// How many full passes begin at once beside those that run; 0 where the ordinary one is enough.
size_t passes_to_start(const EmbedSizes& sizes, size_t pending, size_t n_running) noexcept;

// How many of the first texts share a pass of so many tokens: at least one, which may be longer.
// REQUIRES: there is one.
size_t n_that_fit(std::span<const size_t> lengths, size_t tokens) noexcept;

// What to try after the n_attempts-th attempt of a pass found no memory: half, but no less than
// kMinRetryTokens. Nothing: that was the last attempt.
std::optional<size_t> retry_tokens(size_t tokens, size_t n_attempts, size_t max_attempts) noexcept;

// Keeps later passes small after several in a row found no memory at first.
class PassCeiling {
 public:
  static constexpr size_t kRetriesToDrop = 3;
  static constexpr size_t kCleanToDouble = 16;

  explicit PassCeiling(size_t n_batch) noexcept : n_batch_(n_batch), tokens_(n_batch) {}
  size_t tokens() const noexcept { return tokens_; }  // that a pass may have, or one longer text
  // A pass was retried; `good` tokens found memory last (0: none did).
  void retried(size_t good) noexcept;
  void clean() noexcept;  // a pass found memory at once

 private:
  size_t n_batch_;
  size_t tokens_;
  size_t n_retried_ = 0;  // one behind the other
  size_t n_clean_ = 0;
};

}  // namespace billow::engine
