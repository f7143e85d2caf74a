#include "engine/embed/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"

namespace billow::engine {
namespace {

size_t saturating_times(size_t a, size_t b) noexcept {
  constexpr size_t kMax = std::numeric_limits<size_t>::max();
  return b != 0 && a > kMax / b ? kMax : a * b;
}

}  // namespace

EmbedSizes resolve_sizes(const EmbedSettings& settings, size_t model_max) {
  EmbedSizes sizes;
  sizes.n_batch = settings.n_batch.value_or(sizes.n_batch);
  sizes.n_seq_max = settings.n_seq_max.value_or(sizes.n_seq_max);
  sizes.context_size =
      settings.context_size.value_or(std::max(saturating_times(sizes.n_batch, 4), model_max));
  const size_t longest = std::min(std::max(sizes.n_batch, model_max), sizes.context_size);
  sizes.n_ubatch = settings.n_ubatch.value_or(settings.n_batch ? sizes.n_batch : longest);
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("sizes of embedding passes: {} ({})", what, sizes_line(sizes)));
  };
  sizes.max_batches = settings.max_batches.value_or(sizes.max_batches);
  if (std::min({sizes.n_batch, sizes.n_ubatch, sizes.n_seq_max, sizes.context_size,
                sizes.max_batches}) == 0)
    refuse("none may be 0");
  if (settings.n_ubatch && sizes.n_ubatch > sizes.n_batch)
    refuse("n_ubatch must not be more than n_batch");
  if (sizes.n_batch > sizes.context_size) refuse("n_batch must not be more than context_size");
  return sizes;
}

std::string sizes_line(const EmbedSizes& sizes) {
  return fmt::format("n_batch={}, n_ubatch={}, n_seq_max={}, context_size={}, max_batches={}",
                     sizes.n_batch, sizes.n_ubatch, sizes.n_seq_max, sizes.context_size,
                     sizes.max_batches);
}

size_t text_limit(const EmbedSizes& sizes, size_t model_max) noexcept {
  return std::min(sizes.n_ubatch, model_max);
}

PassSizing size_pass(const EmbedSizes& sizes, size_t pending, size_t active) noexcept {
  using Load = PassSizing::Load;
  const size_t available = sizes.context_size - std::min(sizes.context_size, active);
  PassSizing sizing = {.pending = pending,
                       .active = active,
                       .available = available,
                       .tokens = std::min({pending, sizes.n_batch, available})};
  if (pending == 0)
    sizing.load = Load::kIdle;
  else if (sizing.tokens == available && available < std::min(pending, sizes.n_batch))
    sizing.load = Load::kFull;
  else
    sizing.load = pending < sizes.n_batch ? Load::kLight : Load::kHeavy;
  return sizing;
}

std::string sizing_line(const PassSizing& sizing, const EmbedSizes& sizes) {
  constexpr std::array<const char*, 4> kWhy = {"no pending work", "light load, all pending tokens",
                                               "heavy load with capacity, a full batch",
                                               "at capacity, the free part of the context"};
  return fmt::format("pending={} active={} available={} n_batch={}: {} tokens ({})", sizing.pending,
                     sizing.active, sizing.available, sizes.n_batch, sizing.tokens,
                     kWhy[static_cast<size_t>(sizing.load)]);
}

size_t max_passes(const EmbedSizes& sizes) noexcept { return sizes.context_size / sizes.n_batch; }

std::vector<size_t> threads_of_passes(const EmbedSizes& sizes, size_t n_threads) {
  // More passes than threads would have to share a core.
  const size_t n = std::max<size_t>(1, std::min({sizes.max_batches, max_passes(sizes), n_threads}));
  std::vector<size_t> threads(n, n_threads / n);
  for (size_t i = 0; i < n_threads % n; ++i) ++threads[i];
  for (size_t& count : threads) count = std::max<size_t>(1, count);
  return threads;
}

size_t passes_to_start(const EmbedSizes& sizes, size_t pending, size_t n_running) noexcept {
  const size_t n_full = pending / sizes.n_batch;
  const size_t n_places = max_passes(sizes);
  if (n_full < 2 || n_running >= n_places) return 0;
  return std::min(n_full, n_places - n_running);
}

size_t n_that_fit(std::span<const size_t> lengths, size_t tokens) noexcept {
  size_t n = 1;
  for (size_t sum = lengths[0]; n < lengths.size() && sum <= tokens; ++n) {
    if (lengths[n] > tokens - sum) break;
    sum += lengths[n];
  }
  return n;
}

std::optional<size_t> retry_tokens(size_t tokens, size_t n_attempts, size_t max_attempts) noexcept {
  if (tokens <= kMinRetryTokens || n_attempts >= max_attempts) return std::nullopt;
  return std::max(tokens / 2, kMinRetryTokens);
}

void PassCeiling::retried(size_t good) noexcept {
  n_clean_ = 0;
  if (++n_retried_ < kRetriesToDrop) return;
  n_retried_ = 0;
  tokens_ = std::min(tokens_, std::max(good, std::min(kMinRetryTokens, n_batch_)));
}

void PassCeiling::clean() noexcept {
  n_retried_ = 0;
  if (tokens_ == n_batch_ || ++n_clean_ < kCleanToDouble) return;
  n_clean_ = 0;
  tokens_ = tokens_ > n_batch_ / 2 ? n_batch_ : tokens_ * 2;
}

}  // namespace billow::engine
