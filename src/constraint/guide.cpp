#include "constraint/guide.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace billow::constraint {
namespace {

// Max blank tokens that a model may write between the marker and the grammar, or directly after the
// grammar.
constexpr size_t kMaxBlank = 4;

const std::string& checked_start(const Constraint& constraint) {
  check_start(constraint);
  return constraint.starts_after;
}

void set(std::span<uint32_t> mask, int32_t token, bool value) {
  uint32_t& word = mask[static_cast<size_t>(token) / 32];
  const uint32_t bit = uint32_t{1} << (static_cast<uint32_t>(token) % 32);
  word = value ? word | bit : word & ~bit;
}

}  // namespace

Guide::Guide(std::shared_ptr<const Vocabulary> vocabulary, const Constraint& constraint)
    : vocabulary_(std::move(vocabulary)),
      starts_after_(checked_start(constraint)),
      starts_within_(constraint.starts_within),
      crossing_(starts_after_.size()),
      may_not_start_(constraint.may_not_start),
      matcher_(vocabulary_, constraint.grammar),
      phase_(starts_after_.empty() ? Phase::kGrammar : Phase::kFree),
      mask_(vocabulary_->n_words()) {
  if (starts_within_ != 0 || !constraint.forced_next.empty()) {
    marker_ = vocabulary_->encode_special(starts_after_);
    n_found_ = marker_.size();
    const std::vector<int32_t> next = vocabulary_->encode_special(constraint.forced_next);
    marker_.insert(marker_.end(), next.begin(), next.end());
  }
  if (!constraint.repeats_after.empty()) {
    closer_ = vocabulary_->encode_special(constraint.repeats_after);
    // An end token as part of the text ends the answer.
    if (std::ranges::find_first_of(closer_, vocabulary_->ends()) != closer_.end()) closer_.clear();
  }
  if (constraint.opens_with.empty()) return;
  opener_ = vocabulary_->encode_special(constraint.opens_with);
  if (opener_.empty())
    throw Error(ErrorCode::kInvalidInput, "constraint: opens_with has no token of this model");
  phase_ = Phase::kOpening;
}

void Guide::prepare() noexcept {
  if (ready_ || done()) return;
  try {
    const auto start = std::chrono::steady_clock::now();
    compute_mask();
    const auto time = std::chrono::steady_clock::now() - start;
    stats_.mask_time += time;
    stats_.max_mask_time = std::max<std::chrono::nanoseconds>(stats_.max_mask_time, time);
    ++stats_.n_masks;
  } catch (const std::exception& error) {
    error_ = error.what();
  }
  ready_ = true;
}

std::span<const uint32_t> Guide::allowed() const {
  BILLOW_CHECK(ready_);
  if (!error_.empty()) throw Error(ErrorCode::kTooLarge, error_);
  return all_allowed_ ? std::span<const uint32_t>() : mask_;
}

void Guide::compute_mask() {
  all_allowed_ = false;
  switch (phase_) {
    case Phase::kFree:
      std::ranges::fill(mask_, ~uint32_t{0});
      all_allowed_ = !forbid_text_after_marker() && may_not_start_;
      if (may_not_start_) return;
      for (const int32_t end : vocabulary_->ends()) set(mask_, end, false);
      return;
    case Phase::kMarker:
      std::ranges::fill(mask_, 0);
      return set(mask_, marker_[n_marker_], true);
    case Phase::kOpening:
      std::ranges::fill(mask_, 0);
      if (may_match_ && matcher_.stopped())
        for (const int32_t end : vocabulary_->ends()) set(mask_, end, true);
      else if (may_match_)
        matcher_.compute_mask(mask_);
      return set(mask_, opener_[n_opened_], true);
    case Phase::kBlank:
      matcher_.compute_mask(mask_);
      for (const int32_t blank : vocabulary_->blanks()) set(mask_, blank, true);
      return;
    case Phase::kAfter:
      std::ranges::fill(mask_, 0);
      set(mask_, closer_[n_closed_], true);
      if (n_closed_ > 0) return;
      for (const int32_t end : vocabulary_->ends()) set(mask_, end, true);
      if (n_blank_ == kMaxBlank) return;
      for (const int32_t blank : vocabulary_->blanks()) set(mask_, blank, true);
      return;
    case Phase::kGrammar:
    case Phase::kDone:
      matcher_.compute_mask(mask_);
  }
}

// Forbids the tokens of crossing_ in the mask. Returns whether there are any.
bool Guide::forbid_text_after_marker() {
  bool has_any = false;
  const std::string_view marker = starts_after_;
  for (size_t n_before = 0; n_before < marker.size(); ++n_before) {
    if (!tail_.ends_with(marker.substr(0, n_before))) continue;
    std::optional<std::vector<int32_t>>& tokens = crossing_[n_before];
    if (!tokens) tokens = vocabulary_->going_on_after(marker.substr(n_before), n_before == 0);
    for (const int32_t token : *tokens) set(mask_, token, false);
    has_any = has_any || !tokens->empty();
  }
  return has_any;
}

std::vector<int32_t> Guide::accept(int32_t token, std::string_view text, size_t max_forced) {
  BILLOW_CHECK(!done());
  ready_ = false;
  switch (phase_) {
    case Phase::kOpening:
      open(token);
      break;
    case Phase::kFree:
      note_free(text);
      break;
    case Phase::kMarker:
      if (++n_marker_ == marker_.size()) phase_ = Phase::kBlank;
      break;
    case Phase::kBlank:
      if (std::ranges::binary_search(vocabulary_->blanks(), token) &&
          matcher_.n_allowed({&token, 1}) == 0) {
        if (++n_blank_ == kMaxBlank) phase_ = Phase::kGrammar;
        break;
      }
      consume(token);
      break;
    case Phase::kAfter:
      note_after(token);
      break;
    case Phase::kGrammar:
    case Phase::kDone:
      consume(token);
  }
  std::vector<int32_t> forced = take_forced(max_forced);
  stats_.n_forced += forced.size();
  return forced;
}

// Follows the opener and the grammar while the answer may be either.
void Guide::open(int32_t token) {
  if (token != opener_[n_opened_]) return consume(token);
  may_match_ = may_match_ && !matcher_.stopped() && matcher_.n_allowed({&token, 1}) == 1;
  if (may_match_) matcher_.consume({&token, 1});
  if (++n_opened_ < opener_.size()) return;
  matcher_.reset();
  phase_ = Phase::kFree;
}

void Guide::note_free(std::string_view text) {
  tail_ += text;
  if (tail_.find(starts_after_) != std::string::npos) {
    n_marker_ = n_found_;
    phase_ = n_marker_ < marker_.size() && n_found_ > 0 ? Phase::kMarker : Phase::kBlank;
    return;
  }
  const size_t keep = starts_after_.size() - 1;
  if (tail_.size() > keep) tail_.erase(0, tail_.size() - keep);
  ++n_free_;
  if (starts_within_ != 0 && n_free_ >= starts_within_)
    phase_ = marker_.empty() ? Phase::kBlank : Phase::kMarker;
}

void Guide::consume(int32_t token) {
  matcher_.consume({&token, 1});
  phase_ = Phase::kGrammar;
  if (matcher_.stopped()) end_grammar();
}

void Guide::end_grammar() {
  phase_ = closer_.empty() ? Phase::kDone : Phase::kAfter;
  n_blank_ = n_closed_ = 0;
}

void Guide::note_after(int32_t token) {
  if (token != closer_[n_closed_])
    ++n_blank_;
  else if (++n_closed_ == closer_.size())
    free_again();
}

// Returns to free text, in which the marker starts the grammar again.
void Guide::free_again() {
  matcher_.reset();
  tail_.clear();
  n_blank_ = 0;
  phase_ = Phase::kFree;
}

std::vector<int32_t> Guide::take_forced(size_t max) {
  std::vector<int32_t> forced;
  if (phase_ == Phase::kMarker) {
    const auto begin = marker_.begin() + static_cast<std::ptrdiff_t>(n_marker_);
    const size_t n = std::min(max, marker_.size() - n_marker_);
    forced.assign(begin, begin + static_cast<std::ptrdiff_t>(n));
    n_marker_ += n;
    if (n_marker_ == marker_.size()) phase_ = Phase::kBlank;
  } else if (phase_ == Phase::kAfter && n_closed_ > 0) {
    const auto begin = closer_.begin() + static_cast<std::ptrdiff_t>(n_closed_);
    const size_t n = std::min(max, closer_.size() - n_closed_);
    forced.assign(begin, begin + static_cast<std::ptrdiff_t>(n));
    n_closed_ += n;
    if (n_closed_ == closer_.size()) free_again();
  } else if (phase_ == Phase::kGrammar && max > 0) {
    forced = matcher_.forced();
    if (forced.size() > max) forced.resize(max);
    if (forced.empty()) return forced;
    matcher_.consume(forced);
    if (matcher_.stopped()) end_grammar();
  }
  return forced;
}

}  // namespace billow::constraint
