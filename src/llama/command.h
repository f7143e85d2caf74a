// Builds the command line and environment of llama-server. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace billow::llama {

struct CommandOptions {
  std::string program;      // llama-server
  std::string model;        // path of the GGUF file
  std::string projector{};  // path of the GGUF file with the projector; empty: no projector
  std::vector<std::string> adapters{};  // paths of GGUF files; llama-server applies all of them
  std::string socket;                   // path that ends in ".sock"
  size_t n_cells = 0;                   // KV positions for all answers together
  size_t n_parallel = 1;
  size_t n_batch = 512;  // max rows of one llama-server batch
  int n_threads = 0;     // 0: llama-server's default
  kernels::KvType kv_type = kernels::KvType::kInt16;
  std::optional<int> n_gpu_layers{};  // absent: llama-server's default
  bool is_embedding = false;
  std::string pooling{};  // of an embedding model
};

// Returns the command line. All answers share one pool of KV.
std::vector<std::string> command_of(const CommandOptions& options);

// Returns a new random text that marks the places of images in prompts. It cannot be guessed, so no
// user can put it into a text.
std::string new_media_marker();

// Returns settings for newer versions of llama-server, as "NAME=VALUE" of its environment. Older
// versions ignore them. The settings disable the fitting to the machine's memory and the second
// prompt cache, limit the checkpoints, and set the image marker.
std::vector<std::string> environment_of_server(const std::string& media_marker);

}  // namespace billow::llama
