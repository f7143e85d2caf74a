#include "engine/draft_model.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "engine/load_model.h"
#include "engine/memory_need.h"
#include "tensor/arena.h"
#include "tokenizer/same_vocabulary.h"

namespace billow::engine {
namespace {

constexpr size_t kReadBack = 512;  // tokens before the end at which reading starts over

size_t positions_of(const arch::ModelInfo& model, const DraftModelOptions& options) {
  return std::min({model.max_context, options.max_context, kMaxDraftPositions});
}

// Loads the model. Throws Error for models that cannot draft.
std::unique_ptr<arch::Model> load(const gguf::File& file, nn::PackedWeights* packed) {
  std::unique_ptr<arch::Model> model = load_model(file, {.packed = packed});
  const auto has_state = [](const kv::LayerNeed& layer) { return layer.state_floats != 0; };
  if (std::ranges::any_of(model->info().kv, has_state)) {
    throw Error(
        ErrorCode::kUnsupported,
        file.path() + ": a model with recurrent states (" + model->info().architecture +
            ") cannot draft, because its states cannot be truncated; use another draft model");
  }
  return model;
}

context::MemoryNeed need_of(const gguf::File& file, const arch::Model& model,
                            const kernels::KernelTable& kernels, const nn::PackedWeights& packed,
                            const DraftModelOptions& options) {
  const size_t n_positions = positions_of(model.info(), options);
  context::MemoryNeed need =
      memory_need(file, model, kernels, kv::Layout(model.info().kv, options.kv_type), packed,
                  {.n_batch = kDraftBatch,
                   .n_sequences = options.n_sequences,
                   .n_threads = options.n_threads,
                   .max_context = n_positions});
  // The KV has at most n_positions, even for a longer sequence. The window has all of them, because
  // guesses are undone.
  for (context::KvGroup& group : need.kv_groups) group.window = n_positions;
  return need;
}

// Returns the positions of the pool: for each sequence whole blocks, and one more that a guess may
// begin.
size_t pool_positions(size_t n_positions, size_t n_sequences) {
  return (n_positions / kv::kBlockPositions + 2) * kv::kBlockPositions * n_sequences;
}

}  // namespace

void check_draft_vocabulary(const gguf::File& draft, const gguf::File& target) {
  const std::string why = tokenizer::vocabulary_difference(draft, target);
  if (why.empty()) return;
  throw Error(ErrorCode::kInvalidInput, draft.path() + " cannot draft for " + target.path() + ": " +
                                            why + "; a draft model needs the same vocabulary");
}

context::MemoryNeed draft_need(const gguf::File& file, const kernels::KernelTable& kernels,
                               const DraftModelOptions& options) {
  nn::PackedWeights packed(kernels, options.pack_weights ? arch::max_packed_bytes(file) : 0, {});
  const std::unique_ptr<arch::Model> model = load(file, options.pack_weights ? &packed : nullptr);
  return need_of(file, *model, kernels, packed, options);
}

DraftModel::DraftModel(const std::string& path, const gguf::File& target,
                       const kernels::KernelTable& kernels, const DraftModelOptions& options)
    : file_(gguf::File::open(path)),
      packed_(kernels, options.pack_weights ? arch::max_packed_bytes(file_) : 0,
              [this](std::span<const std::byte> bytes) { file_.release(bytes); }),
      packed_cache_(options.packed_cache),
      model_(load(file_, options.pack_weights ? &packed_ : nullptr)),
      need_(need_of(file_, *model_, kernels, packed_, options)),
      cache_(model_->info().kv,
             pool_positions(positions_of(model_->info(), options), options.n_sequences),
             options.kv_type) {
  check_draft_vocabulary(file_, target);
}

size_t DraftModel::max_positions(size_t rung) const noexcept {
  return std::min({rung, model_->info().max_context, kMaxDraftPositions});
}

size_t DraftModel::Text::follow(std::span<const int32_t> text, size_t n_max) {
  const auto begin_at = [&](size_t first) {
    table_.clear();
    read_.clear();
    first_ = first;
  };
  if (first_ > text.size()) begin_at(0);
  if (text.size() - first_ > n_max)
    begin_at(text.size() - std::clamp<size_t>(n_max / 2, 1, kReadBack));
  const std::span<const int32_t> own = text.subspan(first_);
  // The last token is read again if necessary, for the guess after it.
  const size_t n_max_read = std::min(read_.size(), own.size() - 1);
  const auto wrong =
      std::mismatch(read_.begin(), read_.begin() + static_cast<long>(n_max_read), own.begin());
  read_.resize(static_cast<size_t>(wrong.first - read_.begin()));
  return own.size() - read_.size();
}

std::vector<DraftModel::Guess> DraftModel::read(const nn::Compute& compute,
                                                std::span<const Reading> readings,
                                                size_t n_tokens) {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> positions;
  std::vector<uint32_t> sequences;
  std::vector<const kv::BlockTable*> tables;
  std::vector<uint32_t> logit_rows;
  for (const Reading& reading : readings) {
    Text& text = *reading.text;
    const bool has_room = text.table_.grow(text.read_.size() + reading.tokens.size());
    BILLOW_CHECK(has_room && !reading.tokens.empty());
    for (const int32_t token : reading.tokens) {
      // Ids that this vocabulary lacks are padding of the other one.
      tokens.push_back(static_cast<size_t>(token) < n_vocab() ? token : 0);
      positions.push_back(static_cast<uint32_t>(text.read_.size()));
      sequences.push_back(static_cast<uint32_t>(tables.size()));
      text.read_.push_back(token);
    }
    tables.push_back(&text.table_);
    if (reading.guesses) logit_rows.push_back(static_cast<uint32_t>(tokens.size() - 1));
  }
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix logits = compute.arena.matrix(logit_rows.size(), n_vocab());
  model_->forward(compute, &cache_, {tokens, positions, sequences, tables, logit_rows}, {logits});
  std::vector<Guess> guesses;
  for (size_t i = 0; i < logit_rows.size(); ++i) {
    scan_.read({logits.row(i), std::min(n_tokens, n_vocab())});
    Guess guess;
    if (scan_.has_finite())
      guess = {scan_.arg_max(), static_cast<float>(1.0 / scan_.sum_exp(1.0f))};
    guesses.push_back(guess);
  }
  return guesses;
}

}  // namespace billow::engine
