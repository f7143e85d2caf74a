#include "cli/client/loading_line.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>

#include "base/json.h"
#include "cli/client/show_text.h"
#include "cli/terminal_line.h"

namespace billow::cli {
namespace {

// A model that is loaded answers before the first question.
constexpr auto kInterval = std::chrono::milliseconds(200);

}  // namespace

std::optional<ModelLoad> model_load(const Json& memory) {
  const auto models = memory.find("models");
  if (!memory.is_object() || models == memory.end() || !models->is_array()) return std::nullopt;
  for (const Json& model : *models) {
    ModelLoad load{.name = text_field(model, "name"),
                   .n_loaded = count_field(model, "loaded_bytes"),
                   .n_to_load = count_field(model, "to_load_bytes")};
    if (text_field(model, "state") == "loading" && load.n_to_load > 0) return load;
  }
  return std::nullopt;
}

LoadingLine::LoadingLine(const scheduler::Endpoint& server) {
  status_.show("");
  if (!is_smart_terminal(STDERR_FILENO)) return;
  client_ = std::make_unique<ApiClient>(server);
  // The thread blocks all signals, so that the main thread or an InterruptWatch gets them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LoadingLine::~LoadingLine() { end(); }

void LoadingLine::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  if (thread_.joinable()) {
    client_->abandon();
    thread_.join();
  }
  status_.erase();
}

void LoadingLine::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, kInterval, [this] { return ended_; })) {
    lock.unlock();
    try {
      const std::optional<ModelLoad> load = model_load(client_->get("/api/memory"));
      lock.lock();
      if (!ended_) show(load);
    } catch (const std::exception&) {  // another kind of server, or end(): the spinner stays
      return;
    }
  }
}

void LoadingLine::show(const std::optional<ModelLoad>& load) {
  if (!load) {
    if (has_bar_) status_.erase();  // the load has ended; the spinner continues
    has_bar_ = false;
    return status_.show("");
  }
  has_bar_ = true;
  status_.show("loading " + load->name, load->n_loaded, load->n_to_load);
}

}  // namespace billow::cli
