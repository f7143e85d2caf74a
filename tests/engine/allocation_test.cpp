// Tests which allocations warm passes over texts make, and what happens when an allocation fails.
// This program's operator new counts allocations and can make them fail.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "engine/embed/batcher.h"
#include "engine/tiny_embedder.h"

namespace {

constexpr size_t kLarge = size_t{64} << 10;
std::atomic<size_t> n_large{0};          // allocations above that size, of all threads
std::atomic<long> n_before_refusal{-1};  // allocations that still succeed; negative: all

bool is_refused() { return n_before_refusal >= 0 && n_before_refusal.fetch_sub(1) == 0; }

void* allocated(size_t n_bytes) {
  if (n_bytes > kLarge) ++n_large;
  if (is_refused()) return nullptr;
  return std::malloc(n_bytes == 0 ? 1 : n_bytes);
}
void* aligned(size_t n_bytes, std::align_val_t alignment) {
  if (n_bytes > kLarge) ++n_large;
  if (is_refused()) return nullptr;
  const auto unit = static_cast<size_t>(alignment);
  return std::aligned_alloc(unit, (n_bytes + unit) / unit * unit);
}
void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The other overloads call these. They are not inlined, because GCC would otherwise report
// mismatched allocation and deallocation functions.
[[gnu::noinline]] void* operator new(size_t n_bytes) { return or_throw(allocated(n_bytes)); }
[[gnu::noinline]] void* operator new(size_t n_bytes, const std::nothrow_t&) noexcept {
  return allocated(n_bytes);
}
[[gnu::noinline]] void* operator new(size_t n_bytes, std::align_val_t alignment) {
  return or_throw(aligned(n_bytes, alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace billow::engine {
namespace {

TEST(EncoderAllocation, PG_3_WarmPassesAllocateNoLargeBuffers) {
  for (const quant::Type type : {quant::Type::kF32, quant::Type::kF16, quant::Type::kQ8_0}) {
    const std::vector<std::byte> bytes =
        reference::make_tiny_encoder({.type = type, .n_layers = 1, .n_context = 512});
    std::vector<std::unique_ptr<EmbedModel>> models;
    models.push_back(std::make_unique<EncoderModel>(gguf::File::parse(bytes, "tiny.gguf"),
                                                    EngineOptions{.n_threads = 2}));
    EmbedBatcher batcher(std::move(models));
    // 100 texts of many lengths, for several passes. They are created before counting starts.
    std::vector<EmbedRequest> requests(6);
    for (EmbedRequest& request : requests)
      for (unsigned i = 0; i < 100; ++i) request.texts.push_back(random_text(1 + i * i % 130, i));
    requests.front().texts.push_back(random_text(512, 0));
    requests.front().texts.push_back(random_text(512, 1));
    std::vector<std::optional<EmbedAnswers>> answers(requests.size());
    const auto n_large_of = [&](size_t i) {
      const size_t n_before = n_large;
      answers[i] = batcher.embed(std::move(requests[i]));
      return n_large - n_before;
    };
    n_large_of(0);
    n_large_of(1);
    const uint64_t n_passes = batcher.state().counts.n_passes;
    const uint64_t scratch = batcher.state().memory.scratch;
    for (size_t i = 2; i < 5; ++i) EXPECT_EQ(n_large_of(i), 0u) << quant::row(type).name;
    EXPECT_GE(batcher.state().counts.n_passes, n_passes + 3 * 3);
    EXPECT_EQ(batcher.state().memory.scratch, scratch);
    // The vectors of 200 tokens are larger than the bound, so their allocation is counted.
    requests[5].texts.assign(1, random_text(200, 0));
    requests[5].texts[0].pooling = Pooling::kNone;
    EXPECT_GE(n_large_of(5), 1u);
    for (const auto& some : answers)
      for (const EmbedAnswer& answer : some->texts) EXPECT_EQ(answer.error, "");
  }
}

// If any allocation of any thread fails, the whole pass fails. The next pass works as usual.
TEST(EncoderAllocation, FailedAllocationFailsOnlyItsPass) {
  for (const size_t n_texts :
       {1u, 9u}) {  // 1: threads share the text; 9: each thread has its own texts
    const std::vector<std::byte> bytes =
        reference::make_tiny_encoder({.type = quant::Type::kQ8_0, .n_layers = 1});
    EncoderModel model(gguf::File::parse(bytes, "tiny.gguf"), {.n_threads = 3});
    std::vector<EmbedText> texts;
    std::vector<const EmbedText*> pass;
    for (unsigned i = 0; i < n_texts; ++i) texts.push_back(random_text(20, i));
    for (const EmbedText& text : texts) pass.push_back(&text);
    std::vector<EmbedVector> expected(n_texts);
    model.embed(pass, expected);
    size_t n_refused = 0;
    bool is_through = false;
    for (long n = 0; !is_through; ++n) {
      std::vector<EmbedVector> found(n_texts);
      n_before_refusal = n;
      try {
        model.embed(pass, found);
        is_through = n_before_refusal.exchange(-1) > 0;  // the pass made fewer allocations than n
      } catch (const std::bad_alloc&) {
        n_before_refusal = -1;
        ++n_refused;
      }
      model.embed(pass, found);
      for (size_t i = 0; i < n_texts; ++i) ASSERT_EQ(found[i].values, expected[i].values) << n;
    }
    EXPECT_GT(n_refused, 20u);
  }
}

}  // namespace
}  // namespace billow::engine
