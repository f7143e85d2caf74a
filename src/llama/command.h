// The command line and environment of llama-server. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace billow::llama {

struct CommandOptions {
  std::string program;                  // llama-server
  std::string model;                    // path of the GGUF file
  std::string projector{};              // path of the GGUF file with the projector; empty: none
  std::vector<std::string> adapters{};  // paths of GGUF files, all of them applied
  std::string socket;                   // path that ends in ".sock"
  size_t n_cells = 0;                   // positions of KV for all answers together
  size_t n_parallel = 1;
  size_t n_batch = 512;  // rows that llama-server evaluates at once
  int n_threads = 0;     // 0: as llama-server has it
  kernels::KvType kv_type = kernels::KvType::kInt16;
  std::optional<int> n_gpu_layers{};  // absent: as llama-server has it
  bool is_embedding = false;
  std::string pooling{};  // of an embedding model
};

// All answers share one pool of KV.
std::vector<std::string> command_of(const CommandOptions& options);

// A text for the places of images within prompts. Nobody can guess it, so no text of a user has it.
std::string new_media_marker();

// Settings that only newer versions of llama-server know, as "NAME=VALUE" of its environment. Older
// versions ignore them. They turn off the fitting to the machine's memory and the second cache of
// prompts, keep few checkpoints, and set the marker of images.
std::vector<std::string> environment_of_server(const std::string& media_marker);

}  // namespace billow::llama
