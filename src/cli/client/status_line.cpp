#include "cli/client/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iterator>

#include "cli/client/format.h"

namespace billow::cli {
namespace {

constexpr auto kFrameTime = std::chrono::milliseconds(100);
constexpr const char* kFrames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
constexpr size_t kBarColumns = 24;
constexpr const char* kEraseLine = "\r\033[K";

}  // namespace

std::string progress_text(uint64_t done, uint64_t total, size_t n_columns) {
  const double share =
      total == 0 ? 1.0 : static_cast<double>(std::min(done, total)) / static_cast<double>(total);
  const auto filled = static_cast<size_t>(share * static_cast<double>(n_columns));
  std::string bar;
  for (size_t i = 0; i < n_columns; ++i) bar += i < filled ? "█" : " ";
  return fmt::format("{}% ▕{}▏ {}/{}", static_cast<int>(share * 100), bar,
                     human_bytes(std::min(done, total)), human_bytes(total));
}

StatusLine::StatusLine() : is_terminal_(::isatty(STDERR_FILENO) != 0) {
  if (!is_terminal_) return;
  // Its thread takes no signals: those are for the main thread, or for an InterruptWatch.
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
    draw(true);
  }
}

void StatusLine::draw(bool with_spinner) {
  std::string line = kEraseLine + step_ + (suffix_.empty() ? "" : " " + suffix_);
  if (with_spinner && suffix_.empty()) {
    line += (step_.empty() ? "" : " ") + std::string(kFrames[frame_ % std::size(kFrames)]);
  }
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

void StatusLine::show(const std::string& step) {
  const std::lock_guard lock(mutex_);
  if (is_shown_ && step == step_ && suffix_.empty()) return;
  if (!is_terminal_) {
    if (!step.empty() && step != step_) std::fprintf(stderr, "%s\n", step.c_str());
  } else if (is_shown_ && step != step_ && !step_.empty()) {
    draw(false);
    std::fputc('\n', stderr);
  }
  step_ = step;
  suffix_.clear();
  is_shown_ = true;
  if (is_terminal_) draw(true);
}

void StatusLine::show(const std::string& step, uint64_t done, uint64_t total) {
  if (!is_terminal_) {
    // Elsewhere only the end of it is worth a line.
    if (done >= total) show(fmt::format("{} 100%", step));
    return;
  }
  const std::string suffix = progress_text(done, total, kBarColumns);
  const bool is_same = [&] {
    const std::lock_guard lock(mutex_);
    return is_shown_ && step == step_;
  }();
  if (!is_same) show(step);
  const std::lock_guard lock(mutex_);
  suffix_ = suffix;
  if (done >= total) draw(false);  // between, the spinner's thread draws
}

void StatusLine::finish() {
  const std::lock_guard lock(mutex_);
  if (is_terminal_ && is_shown_) {
    if (step_.empty()) {
      std::fputs(kEraseLine, stderr);
    } else {
      draw(false);
      std::fputc('\n', stderr);
    }
  }
  is_shown_ = false;
}

void StatusLine::erase() {
  const std::lock_guard lock(mutex_);
  if (is_terminal_ && is_shown_) std::fputs(kEraseLine, stderr);
  is_shown_ = false;
  step_.clear();
  suffix_.clear();
}

}  // namespace billow::cli
