// Fetches a file of the web by its address, over a Transport. Nothing says what its bytes must be:
// a file that changes while it is fetched is an error, and who takes the bytes checks them.
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

// Whether `text` is the address of a GGUF file: http:// or https://, and a path that ends with
// ".gguf", with or without a query behind it.
bool is_file_address(std::string_view text);

// The last part of the path: "model.gguf". REQUIRES: is_file_address(url).
std::string file_name_of(std::string_view url);

// All files of the split that the address is one of, in their order; else the address alone. The
// address of a file's page at Hugging Face becomes that of the file. REQUIRES:
// is_file_address(url).
std::vector<std::string> file_addresses(const std::string& url);

struct WebFileOptions {
  // Attempts in a row without a byte. After them the file is given up; after two where the server
  // has never answered.
  int max_attempts = 6;
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt; doubles each time
};

struct WebFileSink {
  // Called once, before the first byte, with the size of the file where the server says it.
  std::function<void(std::optional<uint64_t> n_bytes)> begin{};
  // Takes the bytes in their order.
  std::function<void(std::span<const std::byte> bytes)> write{};
};

// Fetches the file, through up to 10 redirects. An attempt that is cut off continues where the last
// one ended, if the server can do so. Both functions of the sink run on the transport's thread and
// may block it: the transport should serve this file alone. What they throw ends the fetch.
// Throws Error: kNotFound where the server does not have the file; kPermissionDenied where it wants
// to know who asks; kIo where the file has changed meanwhile, where no attempt gets further, and
// once `stop` is set. Every message begins with the host.
void fetch_web_file(Transport& transport, const std::string& url, const WebFileSink& sink,
                    const WebFileOptions& options = {}, std::stop_token stop = {});

}  // namespace billow::registry
