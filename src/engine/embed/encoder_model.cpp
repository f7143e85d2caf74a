#include "engine/embed/encoder_model.h"

#include <algorithm>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/error.h"
#include "cpu/cores.h"
#include "engine/embed/pool_rows.h"
#include "engine/weights.h"

namespace billow::engine {
namespace {

std::string counted(size_t n, const char* what) { return std::to_string(n) + " " + what; }

}  // namespace

Pooling pooling_of_encoder(const gguf::File& file) {
  if (!stated_pooling(file).empty()) return pooling_of(file);
  const bool ranks = file.find_tensor("cls.output.weight") != nullptr;
  return ranks ? Pooling::kRank : Pooling::kMean;
}

uint64_t encoder_scratch_bytes(const arch::Encoder& encoder, const kernels::KernelTable& kernels,
                               size_t n_tokens, size_t n_threads, bool packed) {
  return encoder.scratch_bytes(kernels,
                               {.n_rows = n_tokens,
                                .n_logit_rows = n_tokens,
                                .n_hidden_rows = n_tokens,
                                .n_positions = std::min(n_tokens, encoder.info().max_context),
                                .n_threads = n_threads,
                                .packed = packed});
}

// What one pass evaluates, and where.
struct EncoderModel::Pass {
  std::span<const EmbedText* const> texts;
  std::vector<int32_t> tokens;
  std::vector<uint32_t> ends;     // [texts]
  std::vector<uint32_t> n_first;  // [texts]
  size_t n_longest = 0;
  size_t n_ranked = 0;  // texts that the classifier scores
  tensor::Matrix hidden;

  size_t begin(size_t text) const { return text == 0 ? 0 : ends[text - 1]; }
  size_t n(size_t text) const { return ends[text] - begin(text); }
};

EncoderModel::EncoderModel(gguf::File file, const EngineOptions& options)
    : ledger_(memory_budget(options)),
      file_(std::move(file)),
      kernels_(options.kernels != nullptr ? options.kernels
                                          : &kernels::select_table(kernels::Work::kTexts)),
      team_(options.n_threads > 0 ? options.n_threads : cpu::usable_cores()),
      packed_(*kernels_, options.pack_weights ? arch::most_packed_bytes(file_) : 0,
              [this](std::span<const std::byte> bytes) { file_.release(bytes); }),
      encoder_(arch::load_encoder(file_, {.max_context = options.max_context,
                                          .packed = options.pack_weights ? &packed_ : nullptr})) {
  const arch::ModelInfo& model = encoder_->info();
  info_ = {.architecture = model.architecture,
           .n_embd = model.n_embd,
           .n_vocab = model.n_vocab,
           .max_tokens = options.max_context == 0
                             ? model.max_context
                             : std::min(model.max_context, options.max_context),
           .pooling = pooling_of_encoder(file_),
           .kernels = std::string(kernels_->name)};
  if (info_.pooling == Pooling::kRank && encoder_->n_labels() == 0) {
    throw Error(ErrorCode::kInvalidInput,
                file_.path() +
                    ": the file says that its model ranks, but tensors cls.weight and "
                    "cls.output.weight are missing");
  }
  grant_weights(ledger_, file_, packed_);
  tokenizer_.emplace(pack_weights(team_, packed_, file_, info_.n_vocab, options));
}

// For the largest pass so far, which the arena keeps, or this one.
void EncoderModel::grant_scratch(size_t n_tokens, size_t n_longest, size_t n_ranked) {
  const uint64_t wanted =
      encoder_->scratch_bytes(*kernels_, {.n_rows = n_tokens,
                                          .n_logit_rows = n_ranked,
                                          .n_hidden_rows = n_tokens,
                                          .n_positions = n_longest,
                                          .n_threads = static_cast<size_t>(team_.size()),
                                          .packed = packed_.n_bytes() != 0});
  if (wanted <= scratch_granted_) return;
  if (!ledger_.grant(context::MemoryClass::kScratch, wanted - scratch_granted_)) {
    const context::Ledger::Account account = ledger_.account();
    throw Error(ErrorCode::kOutOfMemory,
                "a pass of " + counted(n_tokens, "tokens") + " takes " + format_byte_size(wanted) +
                    " of scratch memory, but the budget of " + format_byte_size(account.budget) +
                    " leaves " + format_byte_size(account.left() + scratch_granted_) +
                    "; allow more, or smaller passes");
  }
  scratch_granted_ = wanted;
}

MemoryUse EncoderModel::memory() const {
  const context::Ledger::Account account = ledger_.account();
  return {.file = file_.n_bytes(),
          .packed = packed_.n_bytes(),
          .weights = account.of(context::MemoryClass::kWeights),
          .scratch = arena_.n_bytes(),
          .scratch_granted = account.of(context::MemoryClass::kScratch),
          .budget = account.budget};
}

uint64_t EncoderModel::set_memory_budget(uint64_t bytes) {
  ledger_.set_budget(bytes);
  return ledger_.account().total;
}

std::string EncoderModel::refusal(const EmbedText& text) const {
  std::string refused = token_refusal(info_, text.tokens);
  if (!refused.empty()) return refused;
  if (text.n_first > text.tokens.size()) {
    return "the first segment of " + counted(text.n_first, "tokens") +
           " is longer than the text of " + std::to_string(text.tokens.size());
  }
  if (pooling_for(text) == Pooling::kRank && encoder_->n_labels() == 0)
    return "the model cannot rank: it has no classifier";
  return "";
}

void EncoderModel::embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) {
  BILLOW_CHECK(texts.size() == out.size());
  if (texts.empty()) return;
  Pass pass;
  pass.texts = texts;
  for (const EmbedText* text : texts) {
    const std::string refused = refusal(*text);
    if (!refused.empty()) throw Error(ErrorCode::kInvalidInput, refused);
    pass.tokens.insert(pass.tokens.end(), text->tokens.begin(), text->tokens.end());
    pass.ends.push_back(static_cast<uint32_t>(pass.tokens.size()));
    pass.n_first.push_back(static_cast<uint32_t>(text->n_first));
    pass.n_longest = std::max(pass.n_longest, text->tokens.size());
    if (pooling_for(*text) == Pooling::kRank) ++pass.n_ranked;
  }
  grant_scratch(pass.tokens.size(), pass.n_longest, pass.n_ranked);
  const tensor::ArenaScope scope(arena_);
  pass.hidden = arena_.matrix(pass.tokens.size(), info_.n_embd);
  encoder_->forward({*kernels_, team_, arena_},
                    {.tokens = pass.tokens, .ends = pass.ends, .n_first = pass.n_first},
                    pass.hidden);
  pool(pass, out);
  if (pass.n_ranked != 0) rank(pass, out);
}

void EncoderModel::pool(const Pass& pass, std::span<EmbedVector> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = {};
    const Pooling pooling = pooling_for(*pass.texts[i]);
    if (pooling != Pooling::kRank)
      out[i].values.resize(pooled_length(pooling, pass.n(i), info_.n_embd));
  }
  constexpr size_t kTextsAtOnce = 4;
  team_.for_pieces(out.size(), kTextsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      const Pooling pooling = pooling_for(*pass.texts[i]);
      if (pooling == Pooling::kRank) continue;
      pool_rows(pooling, pass.hidden.row(pass.begin(i)), pass.n(i), info_.n_embd,
                out[i].values.data());
      out[i] = checked_vector(std::move(out[i].values));
    }
  });
}

// The classifier's scores of the first tokens.
void EncoderModel::rank(const Pass& pass, std::span<EmbedVector> out) {
  const tensor::Matrix first = arena_.matrix(pass.n_ranked, info_.n_embd);
  const tensor::Matrix scores = arena_.matrix(pass.n_ranked, encoder_->n_labels());
  const auto ranked = [&](size_t i) { return pooling_for(*pass.texts[i]) == Pooling::kRank; };
  size_t row = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (ranked(i))
      pool_rows(Pooling::kFirst, pass.hidden.row(pass.begin(i)), pass.n(i), info_.n_embd,
                first.row(row++));
  encoder_->classify({*kernels_, team_, arena_}, first, scores);
  row = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!ranked(i)) continue;
    const float* own = scores.row(row++);
    out[i] = checked_vector({own, own + scores.n_cols});
  }
}

}  // namespace billow::engine
