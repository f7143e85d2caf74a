// What a model takes and can do, reckoned from its file's header by the program that would run it:
// `billow runner --describe FILE`. The server itself knows no architecture.
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
  bool is_embedding = false;  // nothing but vectors can be had of it
  std::string pooling{};      // as its file states it: "mean", "rank" ...; empty: it does not
  context::MemoryNeed memory{};
  uint64_t adapter_bytes = 0;                      // of its adapters while a request uses them
  std::string adapters{};                          // names them; empty: it has none
  Engine engine = Engine::kOwn;                    // that runs it: not kAuto
  std::optional<context::PictureRule> pictures{};  // absent: it sees none
};

// Of the JSON object that the program prints. Throws Error (kInvalidInput) for anything else, and
// the error that it tells of, as kUnsupported.
ModelFacts parse_model_facts(std::string_view text);

// Of a request that has n_positions of KV when it begins, and its adapters; 0: it only loads the
// model. `with_gap`: its context may be shifted.
ModelCost cost_of(const ModelFacts& facts, size_t n_positions, bool with_gap = false);

// The facts of the model at `path`, as the wanted engine runs it, with what else `wanted`
// names. `stop`: nobody wants them any more.
using DescribeModel = std::function<ModelFacts(const std::string& path, const EngineChoice& wanted,
                                               std::stop_token stop)>;

// Runs `program` for each question. `arguments` are what runners are started with beside the model.
// Throws Error where it cannot be run; it is killed when it takes longer than `time`, and at
// `stop`.
DescribeModel describe_with(std::string program, std::vector<std::string> arguments = {},
                            std::chrono::milliseconds time = std::chrono::seconds(60));

}  // namespace billow::scheduler
