// Quantises the file of a model in a process of its own, so that neither the time nor a crash of
// the work is the server's.
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
  std::string type;  // a name that `billow quantize` knows, of any case
  // Called with bytes of the source, on the thread of the caller.
  std::function<void(uint64_t n_done, uint64_t n_total)> progress{};
  std::stop_token stop{};  // ends the process at once
};

// Runs `program`, which is billow, and hands the new file to `sink` piece after piece. The file is
// the one that `billow quantize` makes. The process has ended when this returns. Throws Error with
// what the process refused the file for, kIo where the process fails, and what `progress` and
// `sink` throw. Any thread.
void quantize_file(const std::string& program, const QuantizeJob& job,
                   const std::function<void(std::span<const std::byte> bytes)>& sink);

}  // namespace billow::api
