#include "registry/flights.h"

#include <condition_variable>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"

namespace billow::registry {

struct Flights::Flight {
  explicit Flight(const store::Digest& of) : digest(of) {}

  void run(const Work& work) {
    std::optional<Error> thrown;
    try {
      work(
          [this](uint64_t n) {
            const std::scoped_lock lock(mutex);
            n_completed = n;
          },
          stop.get_token());
    } catch (const Error& error) {
      thrown = error;
    } catch (const std::exception& error) {
      thrown = Error(ErrorCode::kIo, error.what());
    }
    const std::scoped_lock lock(mutex);
    if (thrown) {
      failure = thrown->what();
      failure_code = thrown->code();
    }
    is_over = true;
    ended.notify_all();
  }

  bool has_ended() {
    const std::scoped_lock lock(mutex);
    return is_over;
  }

  const store::Digest digest;
  std::stop_source stop;
  std::thread thread;  // joined by the last seat
  size_t n_seats = 0;  // guarded by the mutex of the Flights

  std::mutex mutex;  // guards the members below
  std::condition_variable ended;
  uint64_t n_completed = 0;
  bool is_over = false;
  std::optional<std::string> failure;  // text of an exception: threads share no exception object
  ErrorCode failure_code = ErrorCode::kIo;
};

Flights::Seat Flights::join(const store::Digest& digest, Work work) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Flight>& slot = flights_[digest];
  const bool has_joined = slot && !slot->has_ended();
  if (!has_joined) {
    auto fresh = std::make_shared<Flight>(digest);
    // The last seat joins the thread, so the flight outlives the thread.
    fresh->thread = std::thread([&fresh = *fresh, work = std::move(work)] { fresh.run(work); });
    slot = std::move(fresh);
  }
  ++slot->n_seats;
  return {*this, slot, has_joined};
}

Flights::Seat::Seat(Flights& flights, std::shared_ptr<Flight> flight, bool has_joined)
    : flights_(&flights), flight_(std::move(flight)), has_joined_(has_joined) {}

Flights::Seat::~Seat() {
  if (!flight_) return;  // moved from
  {
    const std::scoped_lock lock(flights_->mutex_);
    if (--flight_->n_seats > 0) return;
    const auto at = flights_->flights_.find(flight_->digest);
    if (at != flights_->flights_.end() && at->second == flight_) flights_->flights_.erase(at);
  }
  flight_->stop.request_stop();
  flight_->thread.join();
}

bool Flights::Seat::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(flight_->mutex);
  return flight_->ended.wait_for(lock, timeout, [&] { return flight_->is_over; });
}

uint64_t Flights::Seat::n_completed() const {
  const std::scoped_lock lock(flight_->mutex);
  return flight_->n_completed;
}

void Flights::Seat::check() const {
  const std::scoped_lock lock(flight_->mutex);
  if (flight_->failure) throw Error(flight_->failure_code, *flight_->failure);
}

}  // namespace billow::registry
