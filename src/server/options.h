// Server options, fixed at startup. Plain data.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/local_generator.h"
#include "api/slot_files.h"
#include "prompt/capabilities.h"
#include "registry/client.h"
#include "scheduler/messages.h"
#include "scheduler/model_facts.h"
#include "scheduler/runner.h"
#include "server/trace_exporter.h"

namespace billow::server {

struct Options {
  // Addresses to listen on.
  std::string host = "127.0.0.1";  // empty: no TCP
  uint16_t port = 11434;           // 0: any free port
  std::string socket_path{};       // a Unix socket, in addition to TCP or alone; empty: none
  unsigned socket_mode = 0600;     // permissions of the socket's file
  std::string origins{};           // additional allowed origins, separated by commas

  // Limits.
  size_t max_connections = 4096;
  uint64_t max_body_bytes = uint64_t{256} << 20;
  uint64_t max_bodies_bytes = 0;  // of all requests in flight; 0: twice max_body_bytes
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{300'000};

  std::string api_keys{};  // file of API keys (keys/keys_file.h); empty: no key is needed

  std::string models;  // folder of the model store
  bool read_only = false;
  bool prune = true;  // remove unused blobs at startup

  scheduler::Options models_loaded{};
  scheduler::StartRunner start_runner{};
  scheduler::DescribeModel describe{};
  prompt::GoTemplateUse go_templates = prompt::GoTemplateUse::kAuto;
  api::GenerationPolicy generation{};
  api::SlotFilesOptions slot_files{};  // of saved slots
  api::PictureAddressOptions picture_addresses{};
  std::vector<std::string> preload{};  // models to load before the server is ready

  registry::ClientOptions registry{};  // registries for pull and push
  std::string version = "0.33.0";      // version of Ollama in API responses; clients compare it
  std::string own_version{};           // version of Billow
  std::string
      program{};      // path of the billow program, which quantises files; empty: no quantisation
  std::string isa{};  // kernel table of the runners
  std::string node_name{};       // name of this host in responses and traces
  size_t n_traces = 1000;        // max traces in the store
  CollectorOptions collector{};  // of traces
  bool metrics_aliases = false;  // add vLLM's names to /metrics
  bool web_page = true;          // serve the page at /ui/ if the program includes it
};

}  // namespace billow::server
