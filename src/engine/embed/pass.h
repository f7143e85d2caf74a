// One pass over texts that were taken together, from the model's first attempt to each text's
// vector or error: where memory is short, the texts without a vector are packed again into smaller
// passes. Owns the buffers of a pass, which are used again. One thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/embed/model.h"

namespace billow::engine {

// Of one text. Either there are values or there is an error.
struct EmbedAnswer {
  std::vector<float> values;  // as pooled, not normalised
  std::string error{};        // one line
  int status = 0;             // of that error, as HTTP has them
};

// Whom a pass tells what it does. Any may be empty.
struct PassEvents {
  std::function<void(size_t n_tokens)> on_begin = {};  // before each call of the model
  std::function<void(size_t n_tokens)> on_retry = {};  // with what is tried next
  // Whether somebody waits for the i-th text still; asked before each call of the model.
  std::function<bool(size_t i)> is_wanted = {};
};

struct PassEnd {
  bool was_retried = false;  // for want of memory
  bool lacked_memory = false;
  size_t n_good_tokens = 0;  // of the size that found memory last; 0: none did
  std::string failure{};     // of the model, in other ways; empty: none
};

class EmbedPass {
 public:
  static constexpr int kNoMemoryStatus = 503;
  static constexpr int kFailedStatus = 500;

  explicit EmbedPass(size_t n_texts);  // that buffers are made for

  void clear();
  void add(const EmbedText& text);  // which must stay until the end of run()
  size_t n_tokens() const noexcept { return n_tokens_; }

  // REQUIRES: texts were added since clear(). Throws nothing of the model's; of max_attempts the
  // last one gives up.
  PassEnd run(EmbedModel& model, size_t max_attempts, const PassEvents& events);
  // The i-th text's, once. Empty for one that nobody waited for.
  EmbedAnswer take_answer(size_t i) { return std::move(answers_[i]); }
  // How many vectors of the last run had values that are no numbers.
  size_t n_nan() const noexcept { return n_nan_; }

 private:
  void run_parts(EmbedModel& model, size_t tokens, const PassEvents& events, PassEnd& end);
  // False: it has no vectors.
  bool run_part(EmbedModel& model, const PassEvents& events, PassEnd& end);
  void refuse_part(size_t n_tokens);
  void keep_vectors();
  void fail_part(int status, const std::string& error);
  void drop_unwanted(const PassEvents& events);

  size_t n_tokens_ = 0;
  size_t n_nan_ = 0;
  std::vector<const EmbedText*> texts_;
  std::vector<EmbedAnswer> answers_;
  std::vector<size_t> left_;     // texts without an answer, in their order
  std::vector<size_t> refused_;  // of those: memory for their part was
  std::vector<size_t> lengths_;  // of left_
  // Of one call of the model.
  std::vector<size_t> part_;
  std::vector<const EmbedText*> part_texts_;
  std::vector<EmbedVector> part_vectors_;
};

}  // namespace billow::engine
