// Fetches a file from a web address over a Transport. No digest of the file is known. If the file
// changes during the download, the fetch fails. The receiver of the bytes must check them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "registry/transport.h"

namespace billow::registry {

// Returns whether `text` is the address of a GGUF file: http:// or https://, and a path that ends
// with ".gguf". A query may follow.
bool is_file_address(std::string_view text);

// Returns the last part of the path: "model.gguf". REQUIRES: is_file_address(url).
std::string file_name_of(std::string_view url);

// Returns the addresses of all files of a split model, in order, if `url` is one of them. Otherwise
// returns one address. The address of a file's page at Hugging Face becomes the address of the
// file. REQUIRES: is_file_address(url).
std::vector<std::string> file_addresses(const std::string& url);

struct WebFileOptions {
  // Consecutive attempts without a byte. After this many, the fetch fails. If the server has never
  // answered, the fetch fails after two attempts.
  int max_attempts = 6;
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt; doubles each time
};

struct WebFileSink {
  // Runs once, before the first byte, with the size of the file if the server reports it.
  std::function<void(std::optional<uint64_t> n_bytes)> begin{};
  // Receives the bytes in order.
  std::function<void(std::span<const std::byte> bytes)> write{};
};

// Fetches the file and follows up to 10 redirects. An interrupted attempt resumes where the last
// one ended, if the server can do so. Both functions of the sink run on the transport's thread and
// may block it. The transport should therefore serve this file only. If the functions throw, the
// fetch ends.
// Throws Error: kNotFound if the server does not have the file; kPermissionDenied if it requires
// authentication; kIo if the file has changed, all attempts fail, or `stop` is set. Every message
// begins with the host.
void fetch_web_file(Transport& transport, const std::string& url, const WebFileSink& sink,
                    const WebFileOptions& options = {}, std::stop_token stop = {});

}  // namespace billow::registry
