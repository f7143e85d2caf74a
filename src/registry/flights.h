// Downloads that several pulls share. Pulls of the same blob join one download, and all of them
// see its progress. When the last participant leaves, the download is cancelled. Thread-safe. The
// Flights object must outlive its seats.
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
  // Fetches a blob and calls `report` with the number of stored bytes. Runs on a separate thread.
  // An exception fails the download for all participants.
  using Report = std::function<void(uint64_t n_completed)>;
  using Work = std::function<void(const Report& report, std::stop_token stop)>;

  Flights() = default;
  Flights(const Flights&) = delete;
  Flights& operator=(const Flights&) = delete;

  // One participant of a download. One thread uses it; the destructor leaves the download.
  class Seat;

  // Joins the download of a blob. If no download is running, starts one with `work`.
  Seat join(const store::Digest& digest, Work work);

 private:
  struct Flight;

  std::mutex mutex_;
  std::map<store::Digest, std::shared_ptr<Flight>> flights_;  // the latest of each blob
};

class Flights::Seat {
 public:
  // Waits at most `timeout` for the end of the download. Returns true once the download is over.
  bool wait(std::chrono::milliseconds timeout);
  uint64_t n_completed() const;
  // Returns whether another participant started the download.
  bool has_joined() const noexcept { return has_joined_; }
  // Throws Error if the download has failed. REQUIRES: the download is over.
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
