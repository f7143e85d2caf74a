// What a model takes and can do, reckoned from its file's header by the program that would run it:
// `billow runner --describe FILE`. The server itself knows no architecture.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/estimate.h"

namespace billow::scheduler {

// KV of the layers that see equally far back.
struct KvGroup {
  uint64_t bytes_per_position = 0;
  size_t window = 0;  // positions that are kept; 0: all
};

struct ModelFacts {
  std::string architecture;
  size_t max_context = 0;
  size_t embedding_length = 0;
  bool is_embedding = false;  // nothing but vectors can be had of it
  std::string pooling{};      // as its file states it: "mean", "rank" ...; empty: it does not
  uint64_t weight_bytes = 0;
  uint64_t scratch_bytes = 0;
  std::vector<KvGroup> kv_groups;
};

// Of the JSON object that the program prints. Throws Error (kInvalidInput) for anything else, and
// the error that it tells of, as kUnsupported.
ModelFacts parse_model_facts(std::string_view text);

// With the KV of one request of n_context positions, spread over them.
ModelCost cost_of(const ModelFacts& facts, size_t n_context);

// The facts of the model at `path`. `stop`: nobody wants them any more.
using DescribeModel = std::function<ModelFacts(const std::string& path, std::stop_token stop)>;

// Runs `program` for each question. `arguments` are what runners are started with beside the model.
// Throws Error where it cannot be run; it is killed when it takes longer than `time`, and at
// `stop`.
DescribeModel describe_with(std::string program, std::vector<std::string> arguments = {},
                            std::chrono::milliseconds time = std::chrono::seconds(60));

}  // namespace billow::scheduler
