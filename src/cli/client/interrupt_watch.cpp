#include "cli/client/interrupt_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "cli/client/terminal_modes.h"
#include "cli/interrupt.h"

namespace billow::cli {
namespace {

KeySource* key_source = nullptr;

bool is_ignored(int signal) {
  struct sigaction now{};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

InterruptWatch::InterruptWatch(std::function<void()> on_interrupt)
    : on_interrupt_(std::move(on_interrupt)) {
  if (is_ignored(SIGINT)) return;
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ended_ = ::eventfd(0, EFD_CLOEXEC);
  signals_ = ::signalfd(-1, &interrupt, SFD_CLOEXEC | SFD_NONBLOCK);
  if (ended_ < 0 || signals_ < 0) throw system_error("cannot watch for", "Ctrl-C", errno);
  // A blocked signal stays pending until the descriptor is read.
  ::pthread_sigmask(SIG_BLOCK, &interrupt, &before_);
  thread_ = std::thread([this] { watch(); });
}

InterruptWatch::~InterruptWatch() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    if (::write(ended_, &one, sizeof one) == sizeof one) thread_.join();
    // Discards a late signal, so that it does not end the program.
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) > 0) continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  if (signals_ >= 0) ::close(signals_);
  if (ended_ >= 0) ::close(ended_);
}

void InterruptWatch::use_keys(KeySource* keys) noexcept { key_source = keys; }

// Calls on_interrupt_ the first time. Ends the program the second time.
void InterruptWatch::interrupt() {
  if (interrupted_.exchange(true)) {
    TerminalModes::restore();
    ::_exit(exit_status_of(SIGINT));
  }
  on_interrupt_();
}

void InterruptWatch::watch() {
  for (;;) {
    const int keys = key_source == nullptr ? -1 : key_source->descriptor();
    pollfd polled[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                       {.fd = ended_, .events = POLLIN, .revents = 0},
                       {.fd = keys, .events = POLLIN, .revents = 0}};
    if (::poll(polled, 3, -1) < 0) {
      if (errno != EINTR) return;
      continue;
    }
    if (polled[2].revents != 0 && key_source->take_interrupt()) interrupt();
    if ((polled[0].revents & POLLIN) != 0) {
      signalfd_siginfo info;
      if (::read(signals_, &info, sizeof info) != sizeof info) return;
      interrupt();
    }
    if ((polled[1].revents & POLLIN) != 0) return;
  }
}

}  // namespace billow::cli
