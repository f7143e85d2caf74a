#include "context/truncation.h"

#include <algorithm>
#include <numeric>

namespace billow::context {
namespace {

constexpr size_t kNone = SIZE_MAX;

size_t last_question(std::span<const ChatMessage> messages) {
  for (size_t i = messages.size(); i > 0; --i)
    if (messages[i - 1].role == ChatRole::kQuestion) return i - 1;
  return kNone;
}

// Returns whether a tool call begins here. Consecutive answers are one call.
bool begins_call(std::span<const ChatMessage> messages, size_t i) {
  return messages[i].role == ChatRole::kAnswer &&
         (i == 0 || messages[i - 1].role != ChatRole::kAnswer);
}

// Returns which messages always stay.
std::vector<bool> staying(std::span<const ChatMessage> messages) {
  std::vector<bool> stays(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) stays[i] = messages[i].role == ChatRole::kSystem;
  if (messages.empty()) return stays;
  if (const size_t question = last_question(messages); question != kNone) stays[question] = true;
  stays.back() = true;
  if (messages.back().role != ChatRole::kResult) return stays;
  // A result stays with the call before it and with the call's other results.
  for (size_t i = messages.size(); i > 0 && messages[i - 1].role != ChatRole::kQuestion; --i) {
    stays[i - 1] = true;
    if (begins_call(messages, i - 1)) break;
  }
  return stays;
}

// Returns the smallest cut that leaves at most `limit` tokens, at least 1. Assumes that the
// approximate number of the whole chat and those of all cuts are wrong by the same factor.
size_t guessed_cut(const ChatCuts& cuts, size_t n_about, size_t limit, size_t n_whole) {
  const double scale =
      static_cast<double>(n_whole) / static_cast<double>(std::max<size_t>(1, n_about));
  size_t cut = 1;
  while (cut + 1 < cuts.n_cuts() &&
         static_cast<double>(n_about - cuts.n_tokens_out(cut)) * scale > static_cast<double>(limit))
    ++cut;
  return cut;
}

}  // namespace

ChatCuts::ChatCuts(std::span<const ChatMessage> messages, size_t step)
    : n_messages_(messages.size()) {
  const std::vector<bool> stays = staying(messages);
  const size_t question = last_question(messages);
  // A part: messages that are left out together.
  std::vector<size_t> part_begins;
  std::vector<size_t> part_tokens;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (stays[i]) continue;
    const bool is_after_question = question == kNone || i > question;
    const bool begins =
        messages[i].role == ChatRole::kQuestion || (is_after_question && begins_call(messages, i));
    if (droppable_.empty() || begins) {
      part_begins.push_back(droppable_.size());
      part_tokens.push_back(0);
    }
    part_tokens.back() += messages[i].n_tokens;
    droppable_.push_back(i);
  }
  ends_.push_back(0);
  n_tokens_out_.push_back(0);
  size_t n_out = 0;
  for (size_t i = 0; i < part_begins.size(); ++i) {
    const size_t n_since = n_out - n_tokens_out_.back();
    const bool is_new = part_begins[i] > ends_.back();
    if (is_new && n_since + part_tokens[i] > step) {
      ends_.push_back(part_begins[i]);
      n_tokens_out_.push_back(n_out);
    }
    n_out += part_tokens[i];
  }
  if (ends_.back() < droppable_.size()) {
    ends_.push_back(droppable_.size());
    n_tokens_out_.push_back(n_out);
  }
}

std::vector<size_t> ChatCuts::kept(size_t cut) const {
  std::vector<size_t> kept;
  kept.reserve(n_messages_ - ends_[cut]);
  size_t n_out = 0;
  for (size_t i = 0; i < n_messages_; ++i) {
    if (n_out < ends_[cut] && droppable_[n_out] == i)
      ++n_out;
    else
      kept.push_back(i);
  }
  return kept;
}

size_t cut_step(std::span<const ChatMessage> messages, size_t limit, size_t n_fixed) {
  for (const ChatMessage& message : messages)
    if (message.role == ChatRole::kSystem) n_fixed += message.n_tokens;
  return std::max<size_t>(1, (limit - std::min(limit, n_fixed)) / 2);
}

FittingMessages fitting_messages(std::span<const ChatMessage> messages, size_t limit,
                                 size_t n_fixed, size_t n_whole,
                                 const std::function<size_t(std::span<const size_t> kept)>& count) {
  const ChatCuts cuts(messages, cut_step(messages, limit, n_fixed));
  const size_t n_about = std::accumulate(
      messages.begin(), messages.end(), n_fixed,
      [](size_t sum, const ChatMessage& message) { return sum + message.n_tokens; });
  size_t too_long = 0;             // a cut that leaves too many tokens
  size_t fitting = cuts.n_cuts();  // a cut that fits; n_cuts(): none known
  const auto try_cut = [&](size_t cut) {
    (count(cuts.kept(cut)) <= limit ? fitting : too_long) = cut;
  };
  if (cuts.n_cuts() > 1) {
    // The guess is usually right or off by one. Otherwise the search continues by halving.
    const size_t guess = guessed_cut(cuts, n_about, limit, n_whole);
    try_cut(guess);
    const size_t next = fitting == guess ? guess - 1 : guess + 1;
    if (too_long < next && next < fitting) try_cut(next);
  }
  while (too_long + 1 < fitting) try_cut(too_long + (fitting - too_long) / 2);
  if (fitting < cuts.n_cuts()) return {cuts.kept(fitting), true};
  return {cuts.kept(cuts.n_cuts() - 1), false};
}

}  // namespace billow::context
