// How long passes may be while somebody writes: prompts are read in chunks that take a bounded
// time, and between them those who write get passes of their own. It decides when rows are
// evaluated, never what they are. Pure; one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>

namespace billow::engine {

// Of a pass beside sequences that write, unless told otherwise.
inline constexpr std::chrono::milliseconds kDefaultMaxPassTime{100};

class Pacing {
 public:
  // `max_pass_time`: of a pass that reads beside sequences that write, or twice what a pass of
  // those takes alone, if that is longer; zero: no bound.
  explicit Pacing(std::chrono::nanoseconds max_pass_time) noexcept;

  // How many rows of prompts and texts the next pass may have beside sequences that write;
  // SIZE_MAX: any number. 0 while those that write are behind: they keep at least a third of the
  // rate that they have without prompts.
  size_t max_read_rows() const noexcept;

  struct Pass {
    size_t n_writing = 0;  // rows of sequences that write
    size_t n_reading = 0;  // all other rows
    std::chrono::nanoseconds time{};
  };
  void note(const Pass& pass) noexcept;

 private:
  double max_seconds_;
  double write_seconds_ = 0.0;  // of a pass of those that write alone; 0: none was seen
  double read_seconds_ = 0.0;   // that a row of a prompt adds; 0: none was seen
  double credit_ = 0.0;         // passes that those who write had beyond their share
};

}  // namespace billow::engine
