#include "cli/client/terminal_modes.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/error.h"

namespace billow::cli {
namespace {

constexpr std::string_view kMarkPastes = "\033[?2004h";
constexpr std::string_view kLeavePastes = "\033[?2004l";
constexpr int kSignals[] = {SIGINT, SIGTSTP, SIGCONT, SIGWINCH, SIGTERM, SIGHUP, SIGQUIT};

// The state for signal handlers. Only atomics change while handlers can run.
struct State {
  termios own{};  // modes of the terminal before the session
  termios session{};
  struct sigaction before[std::size(kSignals)]{};
  int wake[2] = {-1, -1};  // a pipe
  std::atomic<bool> is_active{false};
  std::atomic<bool> is_editing{false};
  std::atomic<bool> interrupt{false};
  std::atomic<bool> stop{false};
  std::atomic<bool> continued{false};
  std::atomic<bool> resized{false};
};
State state;

void put(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
}

void apply() noexcept {
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &state.session);
  put(kMarkPastes);
}

void wake(std::atomic<bool>& flag) noexcept {
  flag = true;
  const char byte = 0;
  if (::write(state.wake[1], &byte, 1) < 0) return;  // a full pipe is readable, too
}

void handle(int signal) noexcept;

void install(int signal, void (*handler)(int)) noexcept {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

// Restores the terminal, then runs the default action of the signal.
void run_default_action(int signal) noexcept {
  TerminalModes::restore();
  install(signal, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::raise(signal);
  sigset_t before;
  ::pthread_sigmask(SIG_UNBLOCK, &only, &before);  // here the program ends or is stopped
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  install(signal, handle);
  apply();
}

void handle(int signal) noexcept {
  const int error = errno;
  switch (signal) {
    case SIGINT:
      wake(state.interrupt);
      break;
    case SIGWINCH:
      wake(state.resized);
      break;
    case SIGCONT:
      apply();
      wake(state.continued);
      break;
    case SIGTSTP:
      if (state.is_editing) {
        wake(state.stop);
      } else {
        run_default_action(signal);
      }
      break;
    default:
      run_default_action(signal);
  }
  errno = error;
}

}  // namespace

TerminalModes::TerminalModes() {
  if (::tcgetattr(STDIN_FILENO, &state.own) != 0) {
    throw system_error("cannot edit lines of", "the terminal", errno);
  }
  if (::pipe2(state.wake, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw system_error("cannot watch for signals of", "the terminal", errno);
  }
  state.session = state.own;
  state.session.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | ISTRIP | IXON);
  state.session.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  state.session.c_cc[VMIN] = 1;
  state.session.c_cc[VTIME] = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &state.before[i]);
    // Signals that were ignored at startup stay ignored.
    if (state.before[i].sa_handler != SIG_IGN) install(kSignals[i], handle);
  }
  state.is_active = true;
  apply();
}

TerminalModes::~TerminalModes() {
  restore();
  state.is_active = false;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], &state.before[i], nullptr);
  }
  for (int& end : state.wake) {
    ::close(end);
    end = -1;
  }
}

void TerminalModes::edit(bool is_editing) noexcept { state.is_editing = is_editing; }

void TerminalModes::suspend() {
  restore();
  install(SIGTSTP, SIG_DFL);
  ::kill(0, SIGTSTP);  // the whole process group, e.g. a pipeline
  install(SIGTSTP, handle);
  apply();
  state.stop = state.continued = false;
}

TerminalModes::Signals TerminalModes::signals() {
  char bytes[64];
  while (::read(state.wake[0], bytes, sizeof bytes) > 0) continue;
  return {.interrupt = state.interrupt.exchange(false),
          .stop = state.stop.exchange(false),
          .continued = state.continued.exchange(false),
          .resized = state.resized.exchange(false)};
}

int TerminalModes::signal_descriptor() const noexcept { return state.wake[0]; }

ScreenSize TerminalModes::screen_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {.n_columns = size.ws_col, .n_rows = size.ws_row};
}

void TerminalModes::restore() noexcept {
  if (!state.is_active) return;
  put(kLeavePastes);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &state.own);
}

}  // namespace billow::cli
