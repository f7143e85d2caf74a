#include "api/lookups.h"

#include <exception>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "http/status.h"

namespace billow::api {
namespace {

using http::StatusError;

constexpr std::chrono::milliseconds kIdleTime{10'000};
constexpr int kClientGone = 499;

std::string title_of(const std::string& key) { return key.substr(0, key.find('\n')); }

}  // namespace

Lookups::Lookups(size_t max_running) : max_running_(max_running), threads_(kIdleTime) {}

Lookups::~Lookups() {
  cancel();
  threads_.join();
}

std::shared_ptr<Lookups::Flight> Lookups::begin(const std::string& key,
                                                std::function<Outcome(std::stop_token)> work) {
  if (running_.size() >= max_running_)
    throw StatusError(503, title_of(key) + ": too many files of the model store do not answer");
  auto flight = std::make_shared<Flight>();
  flight->began = Clock::now();
  running_[key] = flight;
  const bool begun = threads_.run([this, key, flight, work = std::move(work)]() mutable {
    Outcome outcome;
    std::function<void()> raise;
    try {
      outcome = work(stop_.get_token());
    } catch (const StatusError& error) {
      raise = [status = error.status(), text = std::string(error.what())] {
        throw StatusError(status, text);
      };
    } catch (const Error& error) {
      raise = [code = error.code(), text = std::string(error.what())] { throw Error(code, text); };
    } catch (const std::exception& error) {
      raise = [text = std::string(error.what())] { throw std::runtime_error(text); };
    }
    work = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      flight->outcome = std::move(outcome);
      flight->raise = std::move(raise);
      flight->done = true;
      running_.erase(key);
    }
    changed_.notify_all();
  });
  if (!begun) {
    running_.erase(key);
    throw StatusError(503, title_of(key) + ": the server has no thread left to read it");
  }
  return flight;
}

Lookups::Outcome Lookups::run(const std::string& key, const Wait& wait,
                              std::function<Outcome(std::stop_token)> work) {
  std::unique_lock lock(mutex_);
  if (stop_.stop_requested()) throw StatusError(503, "the server is shutting down");
  const auto at = running_.find(key);
  const std::shared_ptr<Flight> flight =
      at != running_.end() ? at->second : begin(key, std::move(work));
  changed_.wait_until(lock, wait.stop, flight->began + wait.timeout,
                      [&] { return flight->done || stop_.stop_requested(); });
  if (flight->done && !flight->raise) return flight->outcome;
  // The error of stopped work says less.
  if (stop_.stop_requested()) throw StatusError(503, "the server is shutting down");
  if (flight->done) flight->raise();
  if (wait.stop.stop_requested()) throw StatusError(kClientGone, "the client has disconnected");
  const std::string text = title_of(key) +
                           " cannot be read: the file system has not answered for " +
                           std::to_string(wait.timeout.count() / 1000) + " s";
  log::warn(text);
  throw StatusError(503, text);
}

void Lookups::cancel() {
  const std::scoped_lock lock(mutex_);
  stop_.request_stop();
  changed_.notify_all();
}

size_t Lookups::n_running() const {
  const std::scoped_lock lock(mutex_);
  return running_.size();
}

}  // namespace billow::api
