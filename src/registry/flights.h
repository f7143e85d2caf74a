// Downloads that several pulls share: each blob is fetched once at a time, whoever asks for it, and
// everyone who asks sees how far it is. A download is cancelled when the last one who asked leaves.
// Any thread; Flights outlives its seats.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>

#include "store/digest.h"

namespace billow::registry {

class Flights {
 public:
  // Fetches a blob. Calls `report` with the number of bytes that are there. Runs on a thread of its
  // own; what it throws fails the download of all who wait for it.
  using Report = std::function<void(uint64_t n_completed)>;
  using Work = std::function<void(const Report& report, std::stop_token stop)>;

  Flights() = default;
  Flights(const Flights&) = delete;
  Flights& operator=(const Flights&) = delete;

  // The part of one who asks in a download. Used by one thread; its end leaves the download.
  class Seat;

  // Joins the download of a blob, or begins it with `work` where there is none.
  Seat join(const store::Digest& digest, Work work);

 private:
  struct Flight;

  std::mutex mutex_;
  std::map<store::Digest, std::shared_ptr<Flight>> flights_;  // that others may join
};

class Flights::Seat {
 public:
  // Waits for the end of the download for so long at most. True once it is over.
  bool wait(std::chrono::milliseconds timeout);
  uint64_t n_completed() const;
  // Whether another one began the download.
  bool has_joined() const noexcept { return has_joined_; }
  // REQUIRES: it is over. Throws Error with what went wrong, if anything has.
  void check() const;

  Seat(Seat&&) noexcept = default;
  Seat& operator=(Seat&&) = delete;
  ~Seat();

 private:
  friend class Flights;
  Seat(Flights& flights, std::shared_ptr<Flight> flight, bool has_joined);

  Flights* flights_;
  std::shared_ptr<Flight> flight_;
  bool has_joined_;
};

}  // namespace billow::registry
