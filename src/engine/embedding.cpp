#include "engine/embedding.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace billow::engine {
namespace {

size_t in_blocks(size_t n_positions) {
  constexpr size_t kBlock = kv::kBlockPositions;
  return (n_positions + kBlock - 1) / kBlock * kBlock;
}

// Returns whether a decoder pools the last token's state. Ranking uses that state, too.
bool is_of_last(Pooling pooling) { return pooling == Pooling::kLast || pooling == Pooling::kRank; }

}  // namespace

Pooling pooling_of_decoder(const gguf::File& file) {
  const std::string prefix(file.require_string("general.architecture"));
  if (!file.get_bool(prefix + ".attention.causal").value_or(true)) {
    throw Error(ErrorCode::kUnsupported, file.path() + ": key " + prefix +
                                             ".attention.causal is false: embeddings of a model "
                                             "without causal attention are not supported");
  }
  const Pooling pooling = pooling_of(file);
  if (pooling == Pooling::kMean || pooling == Pooling::kFirst || pooling == Pooling::kLast)
    return pooling;
  if (pooling == Pooling::kRank) {
    if (file.find_tensor("cls.output.weight") != nullptr) return pooling;
    throw Error(ErrorCode::kUnsupported, file.path() + ": key " + prefix +
                                             ".pooling_type says rank, but tensor "
                                             "cls.output.weight is missing");
  }
  throw Error(ErrorCode::kUnsupported, file.path() + ": key " + prefix + ".pooling_type says " +
                                           std::string(pooling_name(pooling)) + "; " + prefix +
                                           " models pool by mean, cls, last or rank");
}

size_t sequences_of(const gguf::File& file, size_t n_parallel) {
  return stated_pooling(file).empty() ? std::max<size_t>(1, n_parallel) : 1;
}

Embedding::Embedding(kv::Cache& cache, std::vector<int32_t> tokens, bool is_long,
                     std::shared_ptr<Adapters::Entry> adapter)
    : tokens_(std::move(tokens)),
      context_(cache,
               {.ladder = context::Ladder(tokens_.size()),
                .policy = context::OverflowPolicy::kStop,
                .compaction = {}},
               tokens_.size()),
      adapter_(std::move(adapter)) {
  if (is_long) context_.set_long();
}

void EmbedQueue::add(std::shared_ptr<Embedding> embedding, TextSender sender) {
  const bool has_next = !queued_.empty();
  const uint64_t next_before = has_next ? turns_.next()->job : 0;
  embedding->id_ = ++n_added_;
  turns_.push(sender.client, sender.is_bulk, {embedding->id_, 0, embedding->tokens_.size()});
  embedding->sender_ = std::move(sender);
  queued_.emplace(embedding->id_, std::move(embedding));
  if (has_next && turns_.next()->job != next_before) waiting_ = denied_ = false;
}

bool EmbedQueue::is_bulk() const {
  const auto is_bulk_text = [](const auto& text) { return text->sender_.is_bulk; };
  return std::ranges::all_of(admitted_, is_bulk_text) && (queued_.empty() || is_bulk_text(next()));
}

void EmbedQueue::cancel(const Embedding& embedding) {
  const auto found = std::ranges::find(admitted_, &embedding, &std::shared_ptr<Embedding>::get);
  std::shared_ptr<Embedding> cancelled;
  if (found != admitted_.end()) {
    cancelled = std::move(*found);
    admitted_.erase(found);
    release(*cancelled);
  } else {
    const auto queued = queued_.find(embedding.id_);
    if (queued == queued_.end() || queued->second.get() != &embedding) return;
    cancelled = std::move(queued->second);
    queued_.erase(queued);
    turns_.remove(cancelled->sender_.client, cancelled->sender_.is_bulk, cancelled->id_);
  }
  waiting_ = denied_ = false;  // another text is next now
  end(*cancelled, "cancelled");
  if (empty()) memory_.trim();
}

void EmbedQueue::end_all() {
  while (!admitted_.empty()) {
    const std::shared_ptr<Embedding> last = admitted_.back();
    cancel(*last);
  }
  for (const auto& [id, text] : queued_) end(*text, "cancelled");
  queued_.clear();
  turns_ = {};
  waiting_ = denied_ = false;
}

void EmbedQueue::end(Embedding& embedding, const std::string& error) {
  embedding.error_ = error;
  embedding.finished_ = true;
}

void EmbedQueue::fail_next(const std::string& error) {
  const std::shared_ptr<Embedding> failed = next();
  cancel(*failed);
  failed->error_ = error;
}

// Blocks are reused immediately while other texts are queued. The system gets the memory after the
// last text.
void EmbedQueue::release(Embedding& embedding) {
  n_positions_ -= in_blocks(embedding.tokens_.size());
  memory_.release_soon(embedding.context_);
  embedding.lease_.reset();
}

size_t EmbedQueue::admit(size_t n_rows, const Grant& grant, const UseAdapter& use_adapter) {
  size_t n_pending = 0;
  for (const auto& embedding : admitted_) n_pending += embedding->n_pending();
  waiting_ = false;
  while (n_pending < n_rows && !queued_.empty()) {
    const std::shared_ptr<Embedding> text = next();
    const size_t n_positions = in_blocks(text->tokens_.size());
    if (!admitted_.empty() && n_positions_ + n_positions > memory_.max_positions()) break;
    try {
      if (text->adapter_ != nullptr) text->lease_ = use_adapter(text->adapter_);
    } catch (const Error& error) {
      fail_next(error.what());
      continue;
    }
    const bool has_adapter = text->adapter_ == nullptr || text->lease_;
    if (!has_adapter || !grant(text->context_, text->tokens_.size())) {
      text->lease_.reset();
      waiting_ = admitted_.empty();
      break;
    }
    n_positions_ += n_positions;
    n_pending += text->n_pending();
    turns_.pop();
    queued_.erase(text->id_);
    admitted_.push_back(text);
  }
  return n_pending;
}

void EmbedQueue::take(size_t n, Pooling pooling, StepRows& rows) {
  parts_.clear();
  for (size_t i = 0; n > 0; ++i) {
    BILLOW_CHECK(i < admitted_.size());
    const std::shared_ptr<Embedding>& embedding = admitted_[i];
    const size_t n_own = std::min(n, embedding->n_pending());
    const auto begin = static_cast<uint32_t>(rows.n());
    const auto end = static_cast<uint32_t>(begin + n_own);
    const bool is_first = embedding->n_evaluated() == 0;
    memory_.evict_out_of_window(embedding->context_);
    memory_.take(embedding->context_, n_own, 0, n_own == embedding->n_pending());
    rows.add(embedding->context_, n_own,
             {.tokens = embedding->tokens_, .adapter = embedding->lease_.adapter()});
    const size_t n_before = rows.hidden_rows.size();
    if (pooling == Pooling::kMean)
      for (uint32_t row = begin; row < end; ++row) rows.hidden_rows.push_back(row);
    else if (pooling == Pooling::kFirst && is_first)
      rows.hidden_rows.push_back(begin);
    else if (is_of_last(pooling) && embedding->n_pending() == 0)
      rows.hidden_rows.push_back(end - 1);
    parts_.push_back({embedding, rows.hidden_rows.size() - n_before});
    n -= n_own;
  }
}

void EmbedQueue::pool(Pooling pooling, tensor::Matrix hidden) {
  size_t row = 0;
  for (const Part& part : parts_) {
    Embedding& embedding = *part.embedding;
    embedding.sum_.resize(n_embd_);
    for (const size_t end = row + part.n_hidden; row < end; ++row)
      for (size_t i = 0; i < n_embd_; ++i)
        embedding.sum_[i] += static_cast<double>(hidden.row(row)[i]);
    if (embedding.n_pending() > 0) continue;
    const size_t n = pooling == Pooling::kMean ? embedding.tokens_.size() : 1;
    for (const double sum : embedding.sum_)
      embedding.vector_.push_back(static_cast<float>(sum / static_cast<double>(n)));
    embedding.sum_ = {};
    embedding.finished_ = true;
    release(embedding);
    admitted_.pop_front();  // the oldest one, because texts finish in the order of admission
  }
  parts_.clear();
  if (empty()) memory_.trim();
}

}  // namespace billow::engine
