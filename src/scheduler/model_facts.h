// Memory needs and abilities of a model, computed from its file's header by the program that would
// run it: `billow runner --describe FILE`. The server itself knows no architectures.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "context/memory_need.h"
#include "context/picture_rule.h"
#include "scheduler/engine_choice.h"
#include "scheduler/estimate.h"

namespace billow::scheduler {

struct ModelFacts {
  std::string architecture;
  size_t max_context = 0;
  size_t embedding_length = 0;
  bool is_embedding = false;  // the model only produces embeddings
  std::string pooling{};      // from its file: "mean", "rank" ...; empty: not stated
  context::MemoryNeed memory{};
  uint64_t adapter_bytes = 0;    // of the adapters while a request uses them
  std::string adapters{};        // identifies the adapters; empty: none
  Engine engine = Engine::kOwn;  // the engine that runs the model: not kAuto
  // How the model takes pictures in llama-server; absent: the model takes no pictures.
  std::optional<context::PictureRule> pictures{};
  // Whether Billow's own engine encodes pictures with the model's projector.
  bool encodes_pictures = false;
};

// Parses the JSON object that the program prints. Throws Error (kInvalidInput) for any other text.
// If the object contains an error, throws it as kUnsupported.
ModelFacts parse_model_facts(std::string_view text);

// Returns the cost of a request with n_positions of KV at its start, and of its adapters. 0
// positions: the request only loads the model. `with_gap`: its context may be shifted.
ModelCost cost_of(const ModelFacts& facts, size_t n_positions, bool with_gap = false);

// Returns the facts of the model at `path` for the wanted engine, with the adapters and other files
// in `wanted`. `stop` cancels the call.
using DescribeModel = std::function<ModelFacts(const std::string& path, const EngineChoice& wanted,
                                               std::stop_token stop)>;

// Returns a function that runs `program` for each call. `arguments` are the additional arguments of
// runners. The function throws Error if the program fails, and kills it after `time` or on `stop`.
DescribeModel describe_with(std::string program, std::vector<std::string> arguments = {},
                            std::chrono::milliseconds time = std::chrono::seconds(60));

}  // namespace billow::scheduler
