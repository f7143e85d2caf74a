#include "cli/bench_texts.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/bench_rates.h"
#include "engine/embed/encoder_model.h"
#include "engine/memory_json.h"

namespace billow::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPassTokens = 2048;    // the default of --n-batch
constexpr double kSecondsOfARun = 0.5;  // min time: a single pass is too short to measure

std::vector<engine::EmbedText> random_texts(const engine::EmbedModelInfo& model, size_t n,
                                            size_t n_tokens, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<engine::EmbedText> texts(n);
  for (engine::EmbedText& text : texts) {
    text.tokens.resize(n_tokens);
    for (int32_t& token : text.tokens)
      token = static_cast<int32_t>(random() % static_cast<unsigned>(model.n_vocab));
  }
  return texts;
}

double pass_rate(engine::EncoderModel& model, size_t n_texts, size_t n_tokens, unsigned seed) {
  const std::vector<engine::EmbedText> texts = random_texts(model.info(), n_texts, n_tokens, seed);
  std::vector<const engine::EmbedText*> pass;
  for (const engine::EmbedText& text : texts) pass.push_back(&text);
  std::vector<engine::EmbedVector> vectors(n_texts);
  const Clock::time_point start = Clock::now();
  double seconds = 0.0;
  size_t n = 0;
  for (; seconds < kSecondsOfARun; n += n_texts * n_tokens) {
    model.embed(pass, vectors);
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(n) / seconds;
}

}  // namespace

Json bench_texts(gguf::File file, const engine::EngineOptions& with,
                 const TextBenchOptions& options) {
  const std::string path = file.path();
  engine::EncoderModel model(std::move(file), with);
  const size_t n_tokens = options.n_tokens;
  if (n_tokens == 0)
    throw Error(ErrorCode::kInvalidInput,
                "an encoder writes nothing: --prompt-tokens 0 leaves nothing to measure");
  if (n_tokens > model.info().max_tokens) {
    throw Error(ErrorCode::kTooLarge,
                "the model takes texts of at most " + std::to_string(model.info().max_tokens) +
                    " tokens, --prompt-tokens asks for " + std::to_string(n_tokens));
  }
  const size_t n_texts = options.n_texts.value_or(std::max<size_t>(1, kPassTokens / n_tokens));
  const Rates rates = measure_rates("texts", options.n_runs, [&](unsigned seed) {
    return pass_rate(model, n_texts, n_tokens, seed);
  });
  return {{"model", path},
          {"architecture", model.info().architecture},
          {"kernels", model.info().kernels},
          {"threads", model.n_threads()},
          {"n_texts", n_texts},
          {"n_tokens", n_tokens},
          {"texts", rates.json()},
          {"memory", memory_json(model.memory())}};
}

}  // namespace billow::cli
