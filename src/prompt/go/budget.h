// The limits of one rendering of a template, and a text whose growth counts against them. Used by
// one rendering, on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace billow::prompt::go {

// Counts down. Both functions throw Error (kTooLarge) if too little is left.
class Budget {
 public:
  Budget(uint64_t n_steps, uint64_t n_bytes) : n_steps_(n_steps), n_bytes_(n_bytes) {}
  void spend_steps(uint64_t n_steps);
  // Counts bytes of the output and of intermediate texts.
  void spend_bytes(uint64_t n_bytes);

 private:
  uint64_t n_steps_;
  uint64_t n_bytes_;
};

class BudgetedText {
 public:
  explicit BudgetedText(Budget& budget) : budget_(budget) {}
  void append(std::string_view text) {
    budget_.spend_bytes(text.size());
    text_ += text;
  }
  void append(size_t n_times, char byte) {
    budget_.spend_bytes(n_times);
    text_.append(n_times, byte);
  }
  std::string take() { return std::move(text_); }
  Budget& budget() { return budget_; }

 private:
  Budget& budget_;
  std::string text_;
};

}  // namespace billow::prompt::go
