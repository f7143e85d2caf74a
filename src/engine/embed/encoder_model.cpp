#include "engine/embed/encoder_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/error.h"
#include "cpu/cores.h"
#include "engine/embed/pool_rows.h"
#include "engine/load_model.h"
#include "engine/weights.h"

namespace billow::engine {
namespace {

std::string counted(size_t n, const char* what) { return std::to_string(n) + " " + what; }

size_t threads_of(const EngineOptions& options) {
  return static_cast<size_t>(options.n_threads > 0 ? options.n_threads : cpu::usable_cores());
}

}  // namespace

Pooling pooling_of_encoder(const gguf::File& file) {
  if (!stated_pooling(file).empty()) return pooling_of(file);
  const bool ranks = file.find_tensor("cls.output.weight") != nullptr;
  return ranks ? Pooling::kRank : Pooling::kMean;
}

uint64_t encoder_scratch_bytes(const arch::Encoder& encoder, const kernels::KernelTable& kernels,
                               size_t n_tokens, size_t n_threads, size_t adapter_rank) {
  return encoder.scratch_bytes(kernels,
                               {.n_rows = n_tokens,
                                .n_logit_rows = n_tokens,
                                .n_hidden_rows = n_tokens,
                                .n_positions = std::min(n_tokens, encoder.info().max_context),
                                .n_threads = n_threads,
                                .adapter_rank = adapter_rank});
}

uint64_t passes_scratch_bytes(const arch::Encoder& encoder, const kernels::KernelTable& kernels,
                              const EmbedSizes& sizes, size_t max_tokens, size_t n_threads,
                              size_t adapter_rank) {
  const size_t n_tokens = std::max(sizes.n_batch, text_limit(sizes, max_tokens));
  uint64_t sum = 0;
  for (const size_t share : threads_of_passes(sizes, n_threads))
    sum += encoder_scratch_bytes(encoder, kernels, n_tokens, share, adapter_rank);
  return sum;
}

// Inputs and buffers of one pass.
struct EncoderModel::Pass {
  std::vector<const EmbedText*> texts;
  std::vector<int32_t> tokens;
  std::vector<uint32_t> ends;                // [texts]
  std::vector<uint32_t> n_first;             // [texts]
  size_t n_ranked = 0;                       // texts that the classifier scores
  size_t n_projected = 0;                    // texts whose vectors are projected
  std::vector<Adapters::Lease> leases;       // of all adapters of the pass
  std::vector<const nn::Adapter*> adapters;  // [texts]; empty: no adapters
  tensor::Matrix hidden;

  size_t begin(size_t text) const { return text == 0 ? 0 : ends[text - 1]; }
  size_t n(size_t text) const { return ends[text] - begin(text); }
  // Returns the adapters of the texts for which `is_wanted(text)` is true, in order.
  template <typename IsWanted>
  std::vector<const nn::Adapter*> adapters_of(const IsWanted& is_wanted) const {
    std::vector<const nn::Adapter*> own;
    for (size_t i = 0; i < adapters.size(); ++i)
      if (is_wanted(i)) own.push_back(adapters[i]);
    return own;
  }
};

EncoderModel::Weights::Weights(gguf::File its_file, const EngineOptions& options)
    : ledger(memory_budget(options)),
      file(std::move(its_file)),
      kernels(options.kernels != nullptr ? options.kernels
                                         : &kernels::select_table(kernels::Work::kEncoder)),
      packed(*kernels, options.pack_weights ? arch::max_packed_bytes(file) : 0,
             [this](std::span<const std::byte> bytes) { file.release(bytes); }),
      packed_cache(options.packed_cache),
      encoder(load_encoder(
          file, {.packed = options.pack_weights ? &packed : nullptr, .matrices = &matrices})),
      adapters(file, matrices, *kernels, ledger),
      default_adapters(options.adapters) {
  const arch::ModelInfo& model = encoder->info();
  info = {.architecture = model.architecture,
          .n_embd = model.n_embd,
          .n_vocab = model.n_vocab,
          .max_tokens = options.max_context == 0 ? model.max_context
                                                 : std::min(model.max_context, options.max_context),
          .pooling = pooling_of_encoder(file),
          .kernels = std::string(kernels->name)};
  if (info.pooling == Pooling::kRank && encoder->n_labels() == 0) {
    throw Error(ErrorCode::kInvalidInput,
                file.path() +
                    ": the file says that its model ranks, but tensors cls.weight and "
                    "cls.output.weight are missing");
  }
  grant_weights(ledger, file, packed);
}

void EncoderModel::Weights::pack(cpu::ThreadTeam& team, const EngineOptions& options) {
  tokenizer.emplace(
      load_weights(team, packed, packed_cache, file, kernels->name, info.n_vocab, options));
}

bool EncoderModel::Weights::grant(context::MemoryClass memory_class, uint64_t n_bytes) {
  while (!ledger.grant(memory_class, n_bytes))
    if (!adapters.drop_idle()) return false;
  return true;
}

EncoderModel::EncoderModel(gguf::File file, const EngineOptions& options)
    : EncoderModel(std::make_shared<Weights>(std::move(file), options),
                   static_cast<int>(threads_of(options)), true) {
  weights_->pack(team_, options);
}

std::vector<std::unique_ptr<EmbedModel>> EncoderModel::load(gguf::File file,
                                                            const EngineOptions& options,
                                                            const EmbedSettings& settings) {
  const auto weights = std::make_shared<Weights>(std::move(file), options);
  const size_t n_threads = threads_of(options);
  const EmbedSizes sizes = resolve_sizes(settings, weights->info.max_tokens);
  const std::vector<size_t> shares = threads_of_passes(sizes, n_threads);
  std::vector<std::unique_ptr<EmbedModel>> models;
  for (const size_t share : shares)
    models.push_back(std::unique_ptr<EncoderModel>(
        new EncoderModel(weights, static_cast<int>(share), models.empty())));
  cpu::ThreadTeam team(static_cast<int>(n_threads));
  weights->pack(team, options);
  return models;
}

// Returns the limits of a pass of all these texts.
arch::PassLimits EncoderModel::limits_of(std::span<const EmbedText* const> texts) const {
  arch::PassLimits limits = {.n_threads = static_cast<size_t>(team_.size())};
  size_t n_ranked = 0;
  size_t n_projected = 0;
  for (const EmbedText* text : texts) {
    limits.n_rows += text->tokens.size();
    limits.n_positions = std::max(limits.n_positions, text->tokens.size());
    if (pooling_for(*text) == Pooling::kRank) ++n_ranked;
    if (is_projected(*text)) ++n_projected;
    const auto entry = weights_->adapters.find(weights_->adapters_of(*text));
    if (entry != nullptr) limits.adapter_rank = std::max(limits.adapter_rank, entry->need().rank);
  }
  limits.n_hidden_rows = limits.n_rows;
  limits.n_logit_rows = std::max(n_ranked, n_projected);
  return limits;
}

// Grants scratch for this pass or the largest pass so far, whose memory the arena keeps.
void EncoderModel::grant_scratch(const arch::PassLimits& limits) {
  // A pass that is no larger than an earlier one in all sizes needs no more memory.
  if (limits.n_rows <= granted_pass_.n_rows && limits.n_positions <= granted_pass_.n_positions &&
      limits.n_logit_rows <= granted_pass_.n_logit_rows &&
      limits.adapter_rank <= granted_pass_.adapter_rank)
    return;
  const uint64_t wanted = weights_->encoder->scratch_bytes(*weights_->kernels, limits);
  if (wanted <= scratch_granted_) return;
  if (!weights_->grant(context::MemoryClass::kScratch, wanted - scratch_granted_)) {
    const context::Ledger::Account account = weights_->ledger.account();
    throw Error(ErrorCode::kOutOfMemory, "a pass of " + counted(limits.n_rows, "tokens") +
                                             " takes " + format_byte_size(wanted) +
                                             " of scratch memory, but the budget of " +
                                             format_byte_size(account.budget) + " leaves " +
                                             format_byte_size(account.left() + scratch_granted_) +
                                             "; allow more memory, or smaller passes");
  }
  scratch_granted_ = wanted;
  granted_pass_ = limits;
}

MemoryUse EncoderModel::memory() const {
  MemoryUse use = {.scratch = arena_.n_bytes(), .scratch_granted = scratch_granted_};
  if (!is_first_) return use;
  const context::Ledger::Account account = weights_->ledger.account();
  use.file = weights_->file.n_bytes();
  use.packed = weights_->packed.n_bytes();
  use.weights = account.of(context::MemoryClass::kWeights);
  use.adapters_cached = account.of(context::MemoryClass::kAdaptersCached);
  use.adapters = account.of(context::MemoryClass::kAdapters) + use.adapters_cached;
  use.adapters_evicted = weights_->adapters.evicted_bytes();
  use.budget = account.budget;
  return use;
}

uint64_t EncoderModel::set_memory_budget(uint64_t bytes) {
  weights_->ledger.set_budget(bytes);
  while (weights_->ledger.account().total > bytes && weights_->adapters.drop_idle()) {
  }
  return weights_->ledger.account().total;
}

std::string EncoderModel::refusal(const EmbedText& text) const {
  std::string refused = token_refusal(info(), text.tokens);
  if (!refused.empty()) return refused;
  if (text.n_first > text.tokens.size()) {
    return "the first segment of " + counted(text.n_first, "tokens") +
           " is longer than the text of " + std::to_string(text.tokens.size());
  }
  if (pooling_for(text) == Pooling::kRank && weights_->encoder->n_labels() == 0)
    return "the model cannot rank: it has no classifier";
  try {
    (void)weights_->adapters.find(weights_->adapters_of(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Returns false if there is too little memory for the text's adapters now.
bool EncoderModel::add(Pass& pass, const EmbedText& text) {
  const std::shared_ptr<Adapters::Entry> entry =
      weights_->adapters.find(weights_->adapters_of(text));
  if (entry != nullptr) {
    auto lease = std::ranges::find(pass.leases, entry, &Adapters::Lease::entry);
    if (lease == pass.leases.end()) {
      Adapters::Lease own = weights_->adapters.use(entry, [this](uint64_t n_bytes) {
        return weights_->grant(context::MemoryClass::kAdapters, n_bytes);
      });
      if (!own) return false;
      pass.leases.push_back(std::move(own));
      lease = pass.leases.end() - 1;
      pass.adapters.resize(pass.texts.size());
    }
    pass.adapters.push_back(lease->adapter());
  } else if (!pass.leases.empty()) {
    pass.adapters.push_back(nullptr);
  }
  pass.texts.push_back(&text);
  pass.tokens.insert(pass.tokens.end(), text.tokens.begin(), text.tokens.end());
  pass.ends.push_back(static_cast<uint32_t>(pass.tokens.size()));
  pass.n_first.push_back(static_cast<uint32_t>(text.n_first));
  if (pooling_for(text) == Pooling::kRank) ++pass.n_ranked;
  if (is_projected(text)) ++pass.n_projected;
  return true;
}

void EncoderModel::embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) {
  BILLOW_CHECK(texts.size() == out.size());
  for (const EmbedText* text : texts) {
    const std::string refused = refusal(*text);
    if (!refused.empty()) throw Error(ErrorCode::kInvalidInput, refused);
  }
  if (texts.empty()) return;
  const uint64_t granted_before = scratch_granted_;
  const arch::PassLimits limits_before = granted_pass_;
  grant_scratch(limits_of(texts));
  std::vector<size_t> left(texts.size());
  std::iota(left.begin(), left.end(), size_t{0});
  while (!left.empty()) {
    Pass pass;
    std::vector<size_t> taken;
    std::vector<size_t> later;  // too little memory for their adapters now
    for (const size_t i : left) {
      try {
        (add(pass, *texts[i]) ? taken : later).push_back(i);
      } catch (const Error& error) {  // the adapter's values are not finite, or the file is gone
        if (error.code() == ErrorCode::kOutOfMemory) throw;
        out[i] = {.values = {}, .error = error.what()};
      }
    }
    if (taken.empty() && !later.empty()) {
      if (left.size() == texts.size()) {  // no pass has run, so the arena has not grown
        weights_->ledger.give_back(context::MemoryClass::kScratch,
                                   scratch_granted_ - granted_before);
        scratch_granted_ = granted_before;
        granted_pass_ = limits_before;
      }
      throw Error(
          ErrorCode::kOutOfMemory,
          "no memory for the adapter of a text; allow more memory, or fewer parallel requests");
    }
    std::vector<EmbedVector> vectors(taken.size());
    if (!taken.empty()) run(pass, vectors);
    for (size_t i = 0; i < taken.size(); ++i) out[taken[i]] = std::move(vectors[i]);
    left = std::move(later);
  }
}

void EncoderModel::run(Pass& pass, std::span<EmbedVector> out) {
  const tensor::ArenaScope scope(arena_);
  pass.hidden = arena_.matrix(pass.tokens.size(), info().n_embd);
  weights_->encoder->forward({*weights_->kernels, team_, arena_},
                             {.tokens = pass.tokens,
                              .ends = pass.ends,
                              .n_first = pass.n_first,
                              .adapters = pass.adapters},
                             pass.hidden);
  pool(pass, out);
  if (pass.n_projected != 0) project(pass, out);
  for (size_t i = 0; i < out.size(); ++i)
    if (pooling_for(*pass.texts[i]) != Pooling::kRank)
      out[i] = checked_vector(std::move(out[i].values));
  if (pass.n_ranked != 0) rank(pass, out);
}

void EncoderModel::pool(const Pass& pass, std::span<EmbedVector> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = {};
    const Pooling pooling = pooling_for(*pass.texts[i]);
    if (pooling != Pooling::kRank)
      out[i].values.resize(pooled_length(pooling, pass.n(i), info().n_embd));
  }
  constexpr size_t kTextsAtOnce = 4;
  team_.for_pieces(out.size(), kTextsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      const Pooling pooling = pooling_for(*pass.texts[i]);
      if (pooling == Pooling::kRank) continue;
      pool_rows(pooling, pass.hidden.row(pass.begin(i)), pass.n(i), info().n_embd,
                out[i].values.data());
    }
  });
}

// Projects the vectors in the order of the texts, without those that are not projected.
void EncoderModel::project(const Pass& pass, std::span<EmbedVector> out) {
  const tensor::ArenaScope scope(arena_);
  const tensor::Matrix vectors = arena_.matrix(pass.n_projected, info().n_embd);
  const auto projected = [&](size_t i) { return is_projected(*pass.texts[i]); };
  size_t row = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (projected(i)) std::ranges::copy(out[i].values, vectors.row(row++));
  const std::vector<const nn::Adapter*> adapters = pass.adapters_of(projected);
  weights_->encoder->project(
      {.kernels = *weights_->kernels, .team = team_, .arena = arena_, .adapters = adapters},
      vectors);
  row = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (projected(i)) std::copy_n(vectors.row(row++), info().n_embd, out[i].values.data());
}

// Calculates the classifier's scores from the first tokens or the means.
void EncoderModel::rank(const Pass& pass, std::span<EmbedVector> out) {
  const tensor::Matrix read = arena_.matrix(pass.n_ranked, info().n_embd);
  const tensor::Matrix scores = arena_.matrix(pass.n_ranked, weights_->encoder->n_labels());
  const auto ranked = [&](size_t i) { return pooling_for(*pass.texts[i]) == Pooling::kRank; };
  size_t row = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (ranked(i))
      pool_rows(weights_->encoder->classifies_mean() ? Pooling::kMean : Pooling::kFirst,
                pass.hidden.row(pass.begin(i)), pass.n(i), info().n_embd, read.row(row++));
  const std::vector<const nn::Adapter*> adapters = pass.adapters_of(ranked);
  weights_->encoder->classify(
      {.kernels = *weights_->kernels, .team = team_, .arena = arena_, .adapters = adapters}, read,
      scores);
  row = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!ranked(i)) continue;
    const float* own = scores.row(row++);
    out[i] = checked_vector({own, own + scores.n_cols});
  }
}

}  // namespace billow::engine
