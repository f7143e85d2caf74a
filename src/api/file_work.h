// Runs a command of billow that makes a file in a process of its own, so that neither the time nor
// a crash of the work is the server's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace billow::api {

// What the maker of the work learns, on the thread of the caller.
struct WorkListener {
  std::function<void(uint64_t n_done, uint64_t n_total)> progress{};  // bytes
  std::function<void(const std::string& line)> note{};
};

struct FileWork {
  std::string command;  // "quantize"
  // Behind it, and behind --progress-json. The command writes the file to standard output.
  std::vector<std::string> arguments;
  WorkListener listener{};
  std::stop_token stop{};  // ends the process at once
};

// Runs `program`, which is billow, and hands the file to `sink` piece after piece. The process has
// ended when this returns. Throws Error with what the process refused the work for, kIo where the
// process fails, and what the listener and `sink` throw. Any thread.
void run_file_work(const std::string& program, const FileWork& work,
                   const std::function<void(std::span<const std::byte> bytes)>& sink);

}  // namespace billow::api
