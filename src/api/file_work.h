// Runs a billow command that writes a file. The command runs in a separate process, so that its
// crash does not end the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace billow::api {

// Callbacks for the progress of the work. They run on the caller's thread.
struct WorkListener {
  std::function<void(uint64_t n_done, uint64_t n_total)> progress{};  // bytes
  std::function<void(const std::string& line)> note{};
};

struct FileWork {
  std::string command;  // "quantize"
  // The arguments after --progress-json. The command writes the file to standard output.
  std::vector<std::string> arguments;
  WorkListener listener{};
  std::stop_token stop{};  // ends the process immediately
};

// Runs `program`, which must be billow, and passes the file to `sink` in pieces. Returns after the
// process has exited. If the process fails, throws Error with the process's message and error code
// (default: kIo). Rethrows exceptions of the listener and of `sink`. Thread-safe.
void run_file_work(const std::string& program, const FileWork& work,
                   const std::function<void(std::span<const std::byte> bytes)>& sink);

}  // namespace billow::api
