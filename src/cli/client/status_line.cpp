#include "cli/client/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <iterator>

#include "cli/client/progress_text.h"
#include "cli/terminal_line.h"

namespace billow::cli {
namespace {

constexpr auto kFrameTime = std::chrono::milliseconds(100);
constexpr const char* kFrames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};

}  // namespace

StatusLine::StatusLine() : is_terminal_(is_smart_terminal(STDERR_FILENO)) {
  if (!is_terminal_) return;
  // The thread blocks all signals, so that the main thread or an InterruptWatch gets them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { turn(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StatusLine::~StatusLine() {
  finish();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StatusLine::turn() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    changed_.wait_for(lock, kFrameTime);
    if (ended_ || !is_shown_) continue;
    ++frame_;
    draw_line(line(true));
  }
}

std::string StatusLine::line(bool with_spinner) {
  if (progress_) {
    progress_->bytes_per_second = rate_.bytes_per_second();
    return progress_line(step_, *progress_, progress_columns());
  }
  std::string line = step_;
  if (with_spinner)
    line += (step_.empty() ? "" : " ") + std::string(kFrames[frame_ % std::size(kFrames)]);
  return cut_to_columns(line, progress_columns());
}

// Begins a new step. The line of the previous step stays on the screen.
void StatusLine::begin(const std::string& step) {
  if (is_terminal_ && is_shown_ && !step_.empty()) end_line(line(false));
  step_ = step;
  progress_.reset();
  rate_ = {};
  is_shown_ = true;
}

void StatusLine::show(const std::string& step) {
  const std::lock_guard lock(mutex_);
  if (is_shown_ && step == step_ && !progress_) return;
  if (!is_terminal_ && !step.empty() && step != step_) std::fprintf(stderr, "%s\n", step.c_str());
  if (!is_shown_ || step != step_) begin(step);
  progress_.reset();
  if (is_terminal_) draw_line(line(true));
}

void StatusLine::show(const std::string& step, uint64_t done, uint64_t total) {
  // If standard error is not a terminal, only the end of a step gets a line.
  if (!is_terminal_) {
    if (done >= total) show(fmt::format("{} 100%", step));
    return;
  }
  const std::lock_guard lock(mutex_);
  const bool is_new = !is_shown_ || step != step_;
  if (is_new) begin(step);
  rate_.add(std::chrono::steady_clock::now(), done);
  progress_ = {.n_done = done, .n_total = total};
  if (is_new || done >= total) draw_line(line(false));  // otherwise the spinner's thread draws
}

void StatusLine::finish() {
  const std::lock_guard lock(mutex_);
  if (is_terminal_ && is_shown_) {
    if (step_.empty()) {
      erase_line();
    } else {
      end_line(line(false));
    }
  }
  is_shown_ = false;
}

void StatusLine::erase() {
  const std::lock_guard lock(mutex_);
  if (is_terminal_ && is_shown_) erase_line();
  is_shown_ = false;
  step_.clear();
  progress_.reset();
}

}  // namespace billow::cli
