// Fetches the pictures that a request names by their web address, from hosts that the operator
// allows. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <semaphore>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"
#include "registry/transport.h"

namespace billow::api {

// Returns whether any picture of the messages is an address.
bool has_picture_addresses(const std::vector<Message>& messages);

struct PictureAddressOptions {
  // Names of hosts that are allowed: "example.com", "example.com:8080", "*.example.com", or "*" for
  // every host. Without a port, the usual ports are allowed: 80 for http and 443 for https.
  std::vector<std::string> hosts{};
  size_t max_bytes = size_t{32} << 20;        // of one picture
  std::chrono::milliseconds timeout{30'000};  // of one picture, with redirects
  // Allows private addresses, for tests.
  bool allows_private = false;
};

class PictureAddresses {
 public:
  // Throws Error (kInvalidInput) for an entry that is not the name of a host.
  explicit PictureAddresses(PictureAddressOptions options = {});

  // Replaces the address of each picture by its bytes. Follows redirects between allowed hosts.
  // Connects only to public addresses, never through a proxy. Throws http::StatusError: 400, which
  // names the picture, if an address is not allowed or the picture cannot be fetched; 503 if too
  // many fetches are running.
  void fetch(std::vector<Message>& messages, const std::stop_token& stop);

 private:
  std::string bytes_of(const std::string& address, const std::stop_token& stop);
  bool allows(std::string_view url) const;
  registry::Transport& transport();

  const PictureAddressOptions options_;
  std::counting_semaphore<> fetchers_{16};
  std::mutex mutex_;
  std::unique_ptr<registry::Transport> transport_;  // made for the first picture
};

}  // namespace billow::api
