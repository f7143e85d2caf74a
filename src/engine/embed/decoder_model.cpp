#include "engine/embed/decoder_model.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace billow::engine {
namespace {

// The texts of a pass. The destructor cancels unfinished texts.
class Running {
 public:
  explicit Running(Engine& engine) : engine_(engine) {}
  ~Running() {
    for (const auto& embedding : all_) engine_.cancel(*embedding);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void start(const EmbedText& text) { all_.push_back(engine_.embed(text.tokens, text.adapters)); }
  const Embedding& operator[](size_t i) const { return *all_[i]; }

 private:
  Engine& engine_;
  std::vector<std::shared_ptr<const Embedding>> all_;
};

// No text is generated. A pass that lacks memory fails, and its texts are retried in other passes.
EngineOptions options_of(EngineOptions options) {
  options.max_sequences = 1;
  options.asks_for_memory = false;
  return options;
}

}  // namespace

DecoderModel::DecoderModel(gguf::File file, const EngineOptions& options)
    : engine_(std::move(file), options_of(options)) {
  const arch::ModelInfo& model = engine_.model();
  info_ = {.architecture = model.architecture,
           .n_embd = model.n_embd,
           .n_vocab = static_cast<size_t>(engine_.tokenizer().n_tokens()),
           .max_tokens = engine_.max_context(),
           .pooling = pooling_of_decoder(engine_.file()),
           .kernels = std::string(engine_.kernels().name)};
  if (info_.pooling == Pooling::kRank) relevance_.emplace(engine_.file(), info_.n_embd);
}

std::string DecoderModel::refusal(const EmbedText& text) const {
  std::string refused = token_refusal(info_, text.tokens);
  if (!refused.empty()) return refused;
  if (text.pooling.value_or(info_.pooling) != info_.pooling) {
    return "the model pools by " + std::string(pooling_name(info_.pooling)) + ", not by " +
           std::string(pooling_name(*text.pooling));
  }
  if (text.n_first > 0) {
    return relevance_ ? "the model ranks by a template, but its file has no "
                        "tokenizer.chat_template.rerank"
                      : "the model does not accept pairs";
  }
  return engine_.adapter_refusal(text.adapters);
}

void DecoderModel::embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) {
  BILLOW_CHECK(texts.size() == out.size());
  for (const EmbedText* text : texts) {
    const std::string refused = refusal(*text);
    if (!refused.empty()) throw Error(ErrorCode::kInvalidInput, refused);
  }
  Running running(engine_);
  for (const EmbedText* text : texts) running.start(*text);
  while (engine_.embeds()) engine_.step();
  for (size_t i = 0; i < out.size(); ++i) {
    const Embedding& embedding = running[i];
    if (!embedding.error().empty())
      out[i] = {.values = {}, .error = embedding.error()};
    else if (relevance_)
      out[i] = checked_vector({relevance_->score(embedding.vector())});
    else
      out[i] = checked_vector(embedding.vector());
  }
}

}  // namespace billow::engine
