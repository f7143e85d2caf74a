#include "engine/draft_model.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/saturating.h"
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

// Returns the need without weights.
context::MemoryNeed need_of(const arch::Model& model, const kernels::KernelTable& kernels,
                            const DraftModelOptions& options) {
  const size_t n_positions = positions_of(model.info(), options);
  context::MemoryNeed need =
      memory_need(0, model, kernels, kv::Layout(model.info().kv, options.kv_type),
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
  context::MemoryNeed need = need_of(*model, kernels, options);
  need.weight_bytes = weight_bytes(file, packed);
  return need;
}

context::MemoryNeed head_need(const arch::Model& head, const kernels::KernelTable& kernels,
                              const DraftModelOptions& options) {
  context::MemoryNeed need = need_of(head, kernels, options);
  need.weight_bytes = options.n_sequences * 2 * kKeptStates * head.info().n_embd * sizeof(float);
  return need;
}

DraftModel::Own::Own(const std::string& path, const gguf::File& target,
                     const kernels::KernelTable& kernels, const DraftModelOptions& options)
    : file(gguf::File::open(path)),
      packed(kernels, options.pack_weights ? arch::max_packed_bytes(file) : 0,
             [this](std::span<const std::byte> bytes) { file.release(bytes); }),
      packed_cache(options.packed_cache),
      model(load(file, options.pack_weights ? &packed : nullptr)) {
  check_draft_vocabulary(file, target);
}

DraftModel::DraftModel(const std::string& path, const gguf::File& target,
                       const kernels::KernelTable& kernels, const DraftModelOptions& options)
    : own_(std::make_unique<Own>(path, target, kernels, options)),
      model_(own_->model.get()),
      need_(need_of(*model_, kernels, options)),
      cache_(model_->info().kv,
             pool_positions(positions_of(model_->info(), options), options.n_sequences),
             options.kv_type) {
  need_.weight_bytes = weight_bytes(own_->file, own_->packed);
}

DraftModel::DraftModel(const arch::Model& head, const kernels::KernelTable& kernels,
                       const DraftModelOptions& options)
    : model_(&head),
      need_(head_need(head, kernels, options)),
      cache_(head.info().kv,
             pool_positions(positions_of(head.info(), options), options.n_sequences),
             options.kv_type) {}

size_t DraftModel::max_positions(size_t rung) const noexcept {
  return std::min({rung, model_->info().max_context, kMaxDraftPositions});
}

void DraftModel::Text::begin_at(size_t first) {
  table_.clear();
  read_.clear();
  n_sure_ = 0;
  first_ = first;
}

size_t DraftModel::Text::follow(std::span<const int32_t> text, size_t n_max) {
  if (n_embd_ != 0) return follow_states(text, n_max);
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

// Tokens that were read as guesses are read again, with the model's states.
size_t DraftModel::Text::follow_states(std::span<const int32_t> text, size_t n_max) {
  if (states_.empty() || states_end() + 1 != text.size()) return 0;
  const size_t last = text.size() - 1;
  if (first_ > last) begin_at(0);
  n_sure_ =
      std::min(n_sure_, last - first_);  // the last token is read again, for the guess after it
  read_.resize(n_sure_);
  const bool lacks_states = first_ + n_sure_ <= states_first_;
  if (lacks_states || text.size() - first_ > n_max)
    begin_at(
        std::max(states_first_ + 1,
                 saturating_subtract(text.size(), std::clamp<size_t>(n_max / 2, 1, kKeptStates))));
  return text.size() - first_ - n_sure_;
}

void DraftModel::Text::keep_states(size_t first, tensor::Matrix states) {
  BILLOW_CHECK(states.n_cols == n_embd_);
  if (states.n_rows == 0) return;
  if (states_.empty() || first != states_end()) {
    states_.clear();
    states_first_ = first;
  }
  states_.insert(states_.end(), states.data, states.data + states.n_rows * n_embd_);
  const size_t n = states_.size() / n_embd_;
  if (n < 2 * kKeptStates) return;
  const size_t n_old = n - kKeptStates;
  states_.erase(states_.begin(), states_.begin() + static_cast<long>(n_old * n_embd_));
  states_first_ += n_old;
}

const float* DraftModel::Text::state_for(size_t index) const noexcept {
  const bool is_known = index > states_first_ && index <= states_end();
  return is_known ? &states_[(index - 1 - states_first_) * n_embd_] : guess_state_.data();
}

std::vector<DraftModel::Guess> DraftModel::read(const nn::Compute& compute,
                                                std::span<const Reading> readings,
                                                size_t n_tokens) {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> positions;
  std::vector<uint32_t> sequences;
  std::vector<const kv::BlockTable*> tables;
  std::vector<uint32_t> logit_rows;
  std::vector<const float*> states;
  for (const Reading& reading : readings) {
    Text& text = *reading.text;
    const bool has_room = text.table_.grow(text.read_.size() + reading.tokens.size());
    BILLOW_CHECK(has_room && !reading.tokens.empty());
    for (const int32_t token : reading.tokens) {
      // Ids that this vocabulary lacks are padding of the other one.
      tokens.push_back(static_cast<size_t>(token) < n_vocab() ? token : 0);
      positions.push_back(static_cast<uint32_t>(text.read_.size()));
      sequences.push_back(static_cast<uint32_t>(tables.size()));
      if (is_head()) {
        const size_t index = text.first_ + text.read_.size();
        states.push_back(text.state_for(index));
        BILLOW_CHECK(states.back() != nullptr);
        if (index <= text.states_end()) ++text.n_sure_;
      }
      text.read_.push_back(token);
    }
    tables.push_back(&text.table_);
    if (reading.guesses) logit_rows.push_back(static_cast<uint32_t>(tokens.size() - 1));
  }
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix logits = compute.arena.matrix(logit_rows.size(), n_vocab());
  const size_t n_hidden = is_head() ? logit_rows.size() : 0;
  const tensor::Matrix hidden = compute.arena.matrix(n_hidden, model_->info().n_embd);
  model_->forward(compute, &cache_,
                  {.tokens = tokens,
                   .positions = positions,
                   .sequences = sequences,
                   .tables = tables,
                   .logit_rows = logit_rows,
                   .hidden_rows = std::span(logit_rows).first(n_hidden),
                   .states = states},
                  {logits, hidden});
  size_t n_guessing = 0;
  for (const Reading& reading : readings) {
    if (!reading.guesses || !is_head()) continue;
    const float* const row = hidden.row(n_guessing++);
    reading.text->guess_state_.assign(row, row + hidden.n_cols);
  }
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
