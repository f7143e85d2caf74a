// One pass over a group of texts, from the first call of the model to a vector or an error for each
// text. If memory is short, the texts without a vector are packed again into smaller passes. Owns
// the buffers of a pass and reuses them. One thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/embed/model.h"

namespace billow::engine {

// Result for one text: values or an error.
struct EmbedAnswer {
  std::vector<float> values;  // as pooled, not normalised
  std::string error{};        // in one line
  int status = 0;             // HTTP status of the error
};

// Callbacks of a pass. Each may be empty.
struct PassEvents {
  std::function<void(size_t n_tokens)> on_begin = {};  // before each call of the model
  std::function<void(size_t n_tokens)> on_retry = {};  // with the tokens of the next attempt
  // Returns whether the i-th text is still wanted. Called before each call of the model.
  std::function<bool(size_t i)> is_wanted = {};
};

struct PassEnd {
  bool was_retried = false;  // after a lack of memory
  bool lacked_memory = false;
  size_t n_good_tokens = 0;  // last size that had enough memory; 0: none
  std::string failure{};     // another error of the model; empty: none
};

class EmbedPass {
 public:
  static constexpr int kNoMemoryStatus = 503;
  static constexpr int kFailedStatus = 500;

  explicit EmbedPass(size_t n_texts);  // size of the initial buffers

  void clear();
  void add(const EmbedText& text);  // must stay valid until run() returns
  size_t n_tokens() const noexcept { return n_tokens_; }

  // Runs the pass, with at most max_attempts attempts. Exceptions of the model become errors of the
  // texts. REQUIRES: texts were added since clear().
  PassEnd run(EmbedModel& model, size_t max_attempts, const PassEvents& events);
  // Returns the result of the i-th text, once. Empty for a text that was not wanted.
  EmbedAnswer take_answer(size_t i) { return std::move(answers_[i]); }
  // Returns how many vectors of the last run had values that are not finite.
  size_t n_nan() const noexcept { return n_nan_; }

 private:
  void run_parts(EmbedModel& model, size_t tokens, const PassEvents& events, PassEnd& end);
  // Returns false if the part has no vectors.
  bool run_part(EmbedModel& model, const PassEvents& events, PassEnd& end);
  void refuse_part(size_t n_tokens);
  void keep_vectors();
  void fail_part(int status, const std::string& error);
  void drop_unwanted(const PassEvents& events);

  size_t n_tokens_ = 0;
  size_t n_nan_ = 0;
  std::vector<const EmbedText*> texts_;
  std::vector<EmbedAnswer> answers_;
  std::vector<size_t> left_;     // texts without an answer, in order
  std::vector<size_t> refused_;  // texts of parts that lacked memory
  std::vector<size_t> lengths_;  // of left_
  // Of one call of the model.
  std::vector<size_t> part_;
  std::vector<const EmbedText*> part_texts_;
  std::vector<EmbedVector> part_vectors_;
};

}  // namespace billow::engine
