// Tests how the batcher packs an encoder's texts: no padding, a text that does not fit in memory
// fails alone, and models of any maximum context work.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "engine/describe.h"
#include "engine/embed/batcher.h"
#include "engine/embed/load.h"
#include "engine/tiny_embedder.h"

namespace billow::engine {
namespace {

using reference::TinyEncoderOptions;

// A batcher over one generated encoder.
struct Packed {
  explicit Packed(const TinyEncoderOptions& encoder,
                  const EngineOptions& options = {.n_threads = 2}, EmbedSettings sizes = {})
      : bytes(reference::make_tiny_encoder(encoder)) {
    batcher = std::make_unique<EmbedBatcher>(
        load_embed_models(gguf::File::parse(bytes, "tiny.gguf"), options, sizes),
        EmbedBatcherOptions{.sizes = sizes});
  }
  std::vector<EmbedAnswer> embed(const std::vector<EmbedText>& texts) const {
    return batcher->embed({texts})->texts;
  }
  EmbedState state() const {
    EXPECT_TRUE(batcher->wait_until_idle(std::chrono::milliseconds(10000)));
    return batcher->state();
  }
  std::vector<std::byte> bytes;
  std::unique_ptr<EmbedBatcher> batcher;
};

std::vector<EmbedText> random_texts(const std::vector<size_t>& lengths) {
  std::vector<EmbedText> texts;
  for (const size_t n : lengths) texts.push_back(random_text(n, static_cast<unsigned>(n)));
  return texts;
}

// Number of outputs that products with F32 weights computed. The kernel counts them.
std::atomic<size_t> n_products{0};

void counted_gemm(const kernels::GemmArgs& args) noexcept {
  const kernels::TypeKernels& real = kernels::select_table().of(quant::Type::kF32);
  const kernels::RowGroups groups = real.input->groups(args.m);
  n_products +=
      (groups.begin(args.group_end) - groups.begin(args.group_begin)) * (args.n_end - args.n_begin);
  real.gemm(args);
}

TEST(EncoderBatcher, PK_18_ProductsHaveOneRowPerTokenAndNoPadding) {
  kernels::KernelTable table = kernels::select_table();
  table.types[static_cast<size_t>(quant::Type::kF32)].gemm = &counted_gemm;
  const TinyEncoderOptions encoder{.n_layers = 2, .n_context = 512};
  const Packed packed(encoder, {.n_threads = 2, .kernels = &table});
  n_products = 0;
  packed.embed(random_texts({1, 511, 7, 300}));
  EXPECT_EQ(packed.state().counts.n_passes, 1u);
  const size_t n_of_a_row = size_t{encoder.n_layers} * (5 * encoder.n_embd + encoder.n_ff);
  EXPECT_EQ(n_products, 819 * n_of_a_row);  // padding would make it 2044 rows
}

TEST(EncoderBatcher, PK_15_DuplicateTextsGetTheSameBits) {
  const Packed packed({.type = quant::Type::kQ8_0}, {.n_threads = 2}, {.n_batch = 128});
  const std::vector<EmbedText> once = random_texts({3, 60, 128, 7, 90, 1, 33});
  const size_t n = once.size();
  std::vector<EmbedText> texts = once;
  texts.insert(texts.end(), once.begin(), once.end());
  const std::vector<EmbedAnswer> answers = packed.embed(texts);
  EXPECT_GT(packed.state().counts.n_passes, 4u);
  for (size_t i = 0; i < n; ++i) {
    EXPECT_FALSE(answers[i].values.empty());
    EXPECT_EQ(answers[i].values, answers[i + n].values);
  }
}

// The ledger refuses a pass before the pass touches memory, so the system never kills the process.
// The batcher then packs the texts into smaller passes, which give the same bits.
TEST(EncoderBatcher, FI_19_OM_21_EQ_4_SplitsRefusedPassesOrFailsOneText) {
  const TinyEncoderOptions encoder{.n_layers = 2, .n_ff = 4096, .n_context = 1024};
  const std::vector<EmbedText> texts = random_texts({1000, 150, 151, 152, 153, 154, 155});
  const Packed whole(encoder);
  const std::vector<EmbedAnswer> expected = whole.embed(texts);
  EXPECT_EQ(whole.state().counts.n_passes, 1u);

  const Packed small(encoder);
  small.embed(random_texts({310}));  // as many tokens as two of the shorter texts
  const MemoryUse use = small.state().memory;
  small.batcher->set_memory_budget(use.held() + (use.scratch_granted - use.scratch), 1);
  const std::vector<EmbedAnswer> answers = small.embed(texts);
  EXPECT_EQ(answers[0].status, EmbedPass::kNoMemoryStatus);
  EXPECT_TRUE(answers[0].values.empty());
  for (size_t i = 1; i < texts.size(); ++i) {
    EXPECT_EQ(answers[i].error, "");
    EXPECT_EQ(answers[i].values, expected[i].values);
  }
  const EmbedState state = small.state();
  EXPECT_EQ(state.counts.n_failed_memory, 1u);
  EXPECT_GE(state.counts.n_retries, 1u);
  EXPECT_LE(state.memory.held(), state.memory.budget);
  EXPECT_EQ(state.degraded, "");
}

// Parallel passes share weights and ledger. Each has its own threads and scratch.
TEST(EncoderBatcher, ParallelPassesGiveTheSameBitsWithinDescribedMemory) {
  const TinyEncoderOptions encoder{.n_layers = 2, .n_context = 512};
  const std::vector<EmbedText> texts = random_texts({500, 3, 17, 200, 90, 91, 92, 512, 1, 300});
  const EngineOptions options{.n_threads = 4};
  const EmbedSettings sizes{.n_batch = 512, .max_batches = 3};
  const Packed alone(encoder, options);
  const std::vector<EmbedAnswer> expected = alone.embed(texts);
  const Packed several(encoder, options, sizes);
  EXPECT_EQ(several.state().load.n_max_passes, 3u);
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        const std::vector<EmbedAnswer> answers = several.embed(texts);
        for (size_t k = 0; k < texts.size(); ++k) EXPECT_EQ(answers[k].values, expected[k].values);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const MemoryUse use = several.state().memory;
  const gguf::File file = gguf::File::parse(several.bytes, "tiny.gguf");
  const Description foreseen = describe(file, {.n_threads = 4, .embed = sizes});
  EXPECT_EQ(use.weights, alone.state().memory.weights) << "parallel passes share the weights";
  EXPECT_LE(use.scratch, use.scratch_granted);
  EXPECT_LE(use.scratch_granted, foreseen.memory.scratch_bytes(foreseen.max_context));
  several.batcher->set_memory_budget(3 * use.held(), 1);
  EXPECT_TRUE(several.embed(texts).front().error.empty());
  for (int i = 0; i < 60'000 && several.state().budget_version != 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(several.state().memory.budget, 3 * use.held()) << "all passes share one budget";
}

TEST(EncoderBatcher, FI_17_AcceptsTextsUpToAnyMaximumContext) {
  for (const uint32_t max : {1u, 2u, 512u, 1000u, 1025u}) {
    const Packed packed({.n_layers = 1, .n_context = max});
    EXPECT_EQ(packed.batcher->sizes().context_size, 8192u);
    const std::vector<EmbedAnswer> answers =
        packed.embed(random_texts({max, max + 1, 1, max > 1 ? max - 1 : 1}));
    EXPECT_FALSE(answers[0].values.empty()) << max;
    EXPECT_EQ(answers[1].status, 400) << max;
    EXPECT_NE(answers[1].error.find(std::to_string(max)), std::string::npos) << answers[1].error;
    EXPECT_FALSE(answers[2].values.empty()) << max;
    EXPECT_FALSE(answers[3].values.empty()) << max;
  }
}

}  // namespace
}  // namespace billow::engine
