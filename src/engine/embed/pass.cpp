#include "engine/embed/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/embed/plan.h"

namespace billow::engine {
namespace {

// Checks the type, never the message, which may contain a user's text.
bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* known = dynamic_cast<const Error*>(&error);
  return known != nullptr && known->code() == ErrorCode::kOutOfMemory;
}

void log_refusal(size_t tokens, size_t n_attempts, size_t n_texts,
                 const std::optional<size_t>& next) {
  const std::string what = fmt::format("OOM at batch_size={} (attempt {})", tokens, n_attempts);
  if (next)
    log::warn(fmt::format("{}, retrying with batch_size={}", what, *next));
  else
    log::warn(fmt::format("{}, giving up: {} sequences get an error", what, n_texts));
}

bool are_numbers(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

EmbedPass::EmbedPass(size_t n_texts) {
  texts_.reserve(n_texts);
  answers_.reserve(n_texts);
  for (auto* indices : {&left_, &refused_, &lengths_, &part_}) indices->reserve(n_texts);
  part_texts_.reserve(n_texts);
  part_vectors_.reserve(n_texts);
}

void EmbedPass::clear() {
  texts_.clear();
  n_tokens_ = 0;
}

void EmbedPass::add(const EmbedText& text) {
  texts_.push_back(&text);
  n_tokens_ += text.tokens.size();
}

PassEnd EmbedPass::run(EmbedModel& model, size_t max_attempts, const PassEvents& events) {
  answers_.assign(texts_.size(), {});
  n_nan_ = 0;
  left_.clear();
  for (size_t i = 0; i < texts_.size(); ++i) left_.push_back(i);
  PassEnd end;
  size_t tokens = n_tokens_;
  for (size_t n_attempts = 1;; ++n_attempts) {
    if (n_attempts > 1)
      log::debug(fmt::format("OOM retry: attempt {} with batch_size={}", n_attempts, tokens));
    run_parts(model, tokens, events, end);
    if (refused_.empty()) {
      if (end.was_retried && end.n_good_tokens == tokens)
        log::info(fmt::format("OOM retry succeeded at batch_size={} after {} attempts", tokens,
                              n_attempts));
      return end;
    }
    const std::optional<size_t> next = retry_tokens(tokens, n_attempts, max_attempts);
    left_.swap(refused_);
    log_refusal(tokens, n_attempts, left_.size(), next);
    if (!next) {
      part_ = left_;
      fail_part(kNoMemoryStatus,
                fmt::format("no memory for a pass of {} tokens; try again later", tokens));
      return end;
    }
    tokens = *next;
    end.was_retried = true;
    if (events.on_retry) events.on_retry(tokens);
  }
}

// Runs the texts in left_, in passes of at most `tokens` tokens. Moves the texts that lacked memory
// to refused_.
void EmbedPass::run_parts(EmbedModel& model, size_t tokens, const PassEvents& events,
                          PassEnd& end) {
  refused_.clear();
  drop_unwanted(events);
  while (!left_.empty()) {
    lengths_.clear();
    for (const size_t i : left_) lengths_.push_back(texts_[i]->tokens.size());
    const auto n = static_cast<std::ptrdiff_t>(n_that_fit(lengths_, tokens));
    part_.assign(left_.begin(), left_.begin() + n);
    left_.erase(left_.begin(), left_.begin() + n);
    if (run_part(model, events, end)) end.n_good_tokens = tokens;
    drop_unwanted(events);
  }
}

bool EmbedPass::run_part(EmbedModel& model, const PassEvents& events, PassEnd& end) {
  size_t n_tokens = 0;
  for (const size_t i : part_) n_tokens += texts_[i]->tokens.size();
  try {
    part_texts_.clear();
    for (const size_t i : part_) part_texts_.push_back(texts_[i]);
    part_vectors_.assign(part_.size(), {});
    if (events.on_begin) events.on_begin(n_tokens);
    model.embed(part_texts_, part_vectors_);
    keep_vectors();
    return true;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) {
      end.lacked_memory = true;
      refuse_part(n_tokens);
      return false;
    }
    end.failure = std::string("the pass failed: ") + error.what();
  } catch (...) {
    end.failure = "the pass failed";
  }
  fail_part(kFailedStatus, end.failure);
  return false;
}

// Does not retry a text that had a pass for itself.
void EmbedPass::refuse_part(size_t n_tokens) {
  if (part_.size() > 1) {
    refused_.insert(refused_.end(), part_.begin(), part_.end());
  } else {
    log::warn(fmt::format("OOM at batch_size={} with one sequence, giving up on it", n_tokens));
    fail_part(kNoMemoryStatus,
              fmt::format("no memory for a text of {} tokens; try again later", n_tokens));
  }
}

void EmbedPass::keep_vectors() {
  for (size_t k = 0; k < part_.size(); ++k) {
    EmbedVector& vector = part_vectors_[k];
    EmbedAnswer& answer = answers_[part_[k]];
    if (vector.error.empty() && are_numbers(vector.values) && !vector.values.empty()) {
      answer.values = std::move(vector.values);
      continue;
    }
    ++n_nan_;
    answer.status = kFailedStatus;
    answer.error = vector.error.empty() ? "the model's vector has values that are not finite"
                                        : std::move(vector.error);
  }
}

void EmbedPass::fail_part(int status, const std::string& error) {
  for (const size_t i : part_) {
    answers_[i].status = status;
    answers_[i].error = error;
  }
}

void EmbedPass::drop_unwanted(const PassEvents& events) {
  if (events.is_wanted) std::erase_if(left_, [&](size_t i) { return !events.is_wanted(i); });
}

}  // namespace billow::engine
