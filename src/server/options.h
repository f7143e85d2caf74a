// What a server is told at its start. Plain data.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/local_generator.h"
#include "prompt/capabilities.h"
#include "registry/client.h"
#include "scheduler/messages.h"
#include "scheduler/model_facts.h"
#include "scheduler/runner.h"

namespace billow::server {

struct Options {
  // Where it listens.
  std::string host = "127.0.0.1";  // empty: not by TCP
  uint16_t port = 11434;           // 0: one that is free
  std::string socket_path{};       // a Unix socket for this user, beside TCP or alone; empty: none
  std::string origins{};           // more that may ask, separated by commas

  // Its limits.
  size_t max_connections = 4096;
  uint64_t max_body_bytes = uint64_t{256} << 20;
  uint64_t max_bodies_bytes = 0;  // of all requests that are being read; 0: twice max_body_bytes
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{300'000};

  std::string models;  // the store's folder
  bool read_only = false;
  bool prune = true;  // unused blobs, at the start

  scheduler::Options models_loaded{};
  scheduler::StartRunner start_runner{};
  scheduler::DescribeModel describe{};
  prompt::GoTemplateUse go_templates = prompt::GoTemplateUse::kAuto;
  api::GenerationPolicy generation{};
  std::vector<std::string> preload{};  // models that are loaded before it is ready, and stay

  registry::ClientOptions registry{};  // where models are pulled from and pushed to
  std::string version = "0.33.0";      // of Ollama, whose API it speaks: clients compare it
  std::string own_version{};           // of the program
  std::string program{};               // billow itself, which quantises files; empty: nothing does
  std::string isa{};                   // the kernel table of runners
  std::string node_name{};             // of this host, in answers and traces
  size_t n_traces = 1000;              // that are kept
  bool metrics_aliases = false;        // vLLM's names in /metrics, too
  bool web_page = true;                // the page at /ui/, where the program has it
};

}  // namespace billow::server
