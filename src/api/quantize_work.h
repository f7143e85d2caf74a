// Quantises a model file in a separate process, so that a crash of the process does not end the
// server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>

namespace billow::api {

struct QuantizeJob {
  std::string path;  // the GGUF file
  std::string type;  // a type of `billow quantize`, in any case
  // Receives the processed bytes of the source, on the caller's thread.
  std::function<void(uint64_t n_done, uint64_t n_total)> progress{};
  std::stop_token stop{};  // ends the process immediately
};

// Runs `program`, which must be billow, and passes the new file to `sink` in pieces. The file
// equals the output of `billow quantize`. Returns after the process has exited. Throws Error with
// the process's message if the process refuses the file, or kIo if it fails. Rethrows exceptions of
// `progress` and `sink`. Thread-safe.
void quantize_file(const std::string& program, const QuantizeJob& job,
                   const std::function<void(std::span<const std::byte> bytes)>& sink);

}  // namespace billow::api
