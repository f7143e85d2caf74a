#include "cli/interrupt.h"

namespace billow::cli {
namespace {

// The only mutable global variable. A signal handler can access nothing else.
volatile std::sig_atomic_t g_signal = 0;

void note(int signal) {
  g_signal = signal;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGHUP, SIG_DFL);
}

void catch_signal(int signal, struct sigaction& before) {
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;  // interrupted writes continue, so no output is lost
  sigaction(signal, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  catch_signal(SIGINT, on_interrupt_);
  catch_signal(SIGTERM, on_terminate_);
  catch_signal(SIGHUP, on_hangup_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &on_interrupt_, nullptr);
  sigaction(SIGTERM, &on_terminate_, nullptr);
  sigaction(SIGHUP, &on_hangup_, nullptr);
  g_signal = 0;
}

int Interrupt::signal() const noexcept { return g_signal; }

void Interrupt::record(int signal) noexcept { g_signal = signal; }

}  // namespace billow::cli
