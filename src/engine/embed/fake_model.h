// A fake model for tests of the batcher. It records its inputs, and sleeps, waits, lacks memory or
// fails as a test wants. Its vectors identify their texts.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "engine/embed/model.h"

namespace billow::engine {

constexpr int32_t kNanToken = 999;       // its vector has values that are not finite
constexpr int32_t kZeroToken = 998;      // its vector has only zeros
constexpr int32_t kUnusableToken = 997;  // refusal() refuses it
constexpr int32_t kThrowingToken = 996;  // refusal() throws

// State that several fakes share and the test reads.
struct FakeWorld {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::vector<size_t>> passes;  // [pass][text] number of tokens; failed passes, too
  std::vector<const void*> buffers;         // text arrays of all passes
  std::vector<const int32_t*> tokens;       // token arrays of all texts
  size_t memory_limit = SIZE_MAX;           // max tokens of a pass
  bool throws_bad_alloc = false;            // for a lack of memory; false: an Error
  std::function<void()> before_pass = {};   // may throw
  bool is_open = true;                      // false: passes wait
  size_t n_inside = 0;                      // passes in the model
  std::atomic<size_t> n_tokens{0};          // evaluated tokens, failed passes included

  void open(bool value) {
    const std::scoped_lock lock(mutex);
    is_open = value;
    changed.notify_all();
  }
  // Waits until n passes are in the model.
  void wait_for_inside(size_t n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return n_inside == n; });
  }
  // Returns the token sums of the passes from the n-th on.
  std::vector<size_t> sums(size_t n = 0) {
    const std::scoped_lock lock(mutex);
    std::vector<size_t> all;
    for (; n < passes.size(); ++n)
      all.push_back(std::accumulate(passes[n].begin(), passes[n].end(), size_t{0}));
    return all;
  }
};

class FakeEmbedModel : public EmbedModel {
 public:
  explicit FakeEmbedModel(std::shared_ptr<FakeWorld> world, size_t max_tokens = 8192,
                          std::optional<tokenizer::Tokenizer> tokenizer = std::nullopt)
      : world_(std::move(world)),
        tokenizer_(std::move(tokenizer)),
        info_({.architecture = "fake", .n_embd = 3, .n_vocab = 1000, .max_tokens = max_tokens}) {}

  const EmbedModelInfo& info() const noexcept override { return info_; }
  const tokenizer::Tokenizer& tokenizer() const noexcept override {
    BILLOW_CHECK(tokenizer_.has_value());
    return *tokenizer_;
  }
  std::string refusal(const EmbedText& text) const override {
    if (text.tokens.empty()) return "the input has no tokens";
    if (std::ranges::count(text.tokens, kThrowingToken) > 0) throw std::runtime_error("bad text");
    return std::ranges::count(text.tokens, kUnusableToken) > 0 ? "the input is unusable" : "";
  }

  void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) override {
    enter(texts);
    const Leave leave{*world_};
    if (world_->before_pass) world_->before_pass();
    size_t sum = 0;
    for (const EmbedText* text : texts) sum += text->tokens.size();
    world_->n_tokens += sum;
    if (sum > world_->memory_limit) {
      if (world_->throws_bad_alloc) throw std::bad_alloc();
      throw Error(ErrorCode::kOutOfMemory, "no memory");
    }
    for (size_t i = 0; i < texts.size(); ++i) out[i].values = vector_of(*texts[i]);
  }

  static std::vector<float> vector_of(const EmbedText& text) {
    if (text.tokens[0] == kNanToken) return {1.0f, NAN, 0.0f};
    if (text.tokens[0] == kZeroToken) return {0.0f, 0.0f, 0.0f};
    float sum = 0.0f;
    for (const int32_t token : text.tokens) sum += static_cast<float>(token);
    return {sum, static_cast<float>(text.tokens.size()), static_cast<float>(text.tokens[0])};
  }

 private:
  struct Leave {
    FakeWorld& world;
    ~Leave() {
      const std::scoped_lock lock(world.mutex);
      --world.n_inside;
      world.changed.notify_all();
    }
  };
  void enter(std::span<const EmbedText* const> texts) {
    std::unique_lock lock(world_->mutex);
    world_->passes.emplace_back();
    for (const EmbedText* text : texts) {
      world_->passes.back().push_back(text->tokens.size());
      world_->tokens.push_back(text->tokens.data());
    }
    world_->buffers.push_back(texts.data());
    ++world_->n_inside;
    world_->changed.notify_all();
    world_->changed.wait(lock, [&] { return world_->is_open; });
  }

  std::shared_ptr<FakeWorld> world_;
  std::optional<tokenizer::Tokenizer> tokenizer_;  // only for tests that use it
  EmbedModelInfo info_;
};

// Returns a text of n equal tokens.
inline EmbedText text_of(size_t n, int32_t token = 1) {
  return {.tokens = std::vector<int32_t>(n, token)};
}
inline std::vector<EmbedText> texts_of(const std::vector<size_t>& lengths) {
  std::vector<EmbedText> texts;
  for (size_t i = 0; i < lengths.size(); ++i)
    texts.push_back(text_of(lengths[i], static_cast<int32_t>(i % 900)));
  return texts;
}

}  // namespace billow::engine
