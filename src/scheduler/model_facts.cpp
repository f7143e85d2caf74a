#include "scheduler/model_facts.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "process/program_output.h"

namespace billow::scheduler {
namespace {

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::kInvalidInput, std::string("a model's description lacks ") + what);
}

uint64_t count(const Json& object, const char* name, bool required = true) {
  const auto found = object.find(name);
  const bool fits = found != object.end() && found->is_number_unsigned();
  if (!fits && (required || found != object.end())) refuse(name);
  return fits ? found->get<uint64_t>() : 0;
}

std::string text(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) refuse(name);
  return found->get<std::string>();
}

// Returns a member. Throws Error if it is absent or `fits` rejects its type.
const Json& member(const Json& object, const char* name, bool (Json::*fits)() const noexcept) {
  const auto found = object.find(name);
  if (found == object.end() || !((*found).*fits)()) refuse(name);
  return *found;
}

context::MemoryNeed parse_memory(const Json& json) {
  context::MemoryNeed need;
  need.weight_bytes = count(json, "weight_bytes");
  need.block_positions = std::max<uint64_t>(1, count(json, "block_positions"));
  need.n_batch = count(json, "batch");
  for (const Json& step : member(json, "scratch", &Json::is_array)) {
    if (!step.is_object()) refuse("scratch");
    need.scratch.push_back({count(step, "positions"), count(step, "bytes")});
  }
  for (const Json& group : member(json, "kv_groups", &Json::is_array)) {
    if (!group.is_object()) refuse("kv_groups");
    need.kv_groups.push_back({count(group, "block_bytes"), count(group, "window", false),
                              count(group, "state_stride", false),
                              count(group, "draft_states", false)});
  }
  return need;
}

std::optional<context::PictureRule> parse_pictures(const Json& json) {
  using Kind = context::PictureRule::Kind;
  const auto found = json.find("pictures");
  if (found == json.end()) return std::nullopt;
  if (!found->is_object()) refuse("pictures");
  context::PictureRule rule{.cell = count(*found, "cell"),
                            .edge = count(*found, "edge"),
                            .min_rows = count(*found, "min_rows"),
                            .max_rows = count(*found, "max_rows"),
                            .max_tiles = count(*found, "max_tiles")};
  const std::string kind = text(*found, "kind");
  if (kind != "square" && kind != "scaled" && kind != "tiled") refuse("the kind of pictures");
  rule.kind = kind == "square" ? Kind::kSquare : kind == "scaled" ? Kind::kScaled : Kind::kTiled;
  return rule;
}

}  // namespace

ModelFacts parse_model_facts(std::string_view output) {
  const Json json = Json::parse(output, nullptr, false);
  if (!json.is_object()) refuse("its JSON object");
  if (json.contains("error")) throw Error(ErrorCode::kUnsupported, text(json, "error"));
  ModelFacts facts;
  facts.architecture = text(json, "architecture");
  facts.max_context = count(json, "max_context");
  facts.embedding_length = count(json, "embedding_length", false);
  facts.is_embedding = json.contains("is_embedding") && json["is_embedding"] == true;
  if (json.contains("pooling")) facts.pooling = text(json, "pooling");
  if (json.contains("engine") && text(json, "engine") == engine_name(Engine::kLlama))
    facts.engine = Engine::kLlama;
  facts.memory = parse_memory(member(json, "memory", &Json::is_object));
  facts.adapter_bytes = count(json, "adapter_bytes", false);
  facts.pictures = parse_pictures(json);
  facts.encodes_pictures = json.contains("encodes_pictures") && json["encodes_pictures"] == true;
  return facts;
}

ModelCost cost_of(const ModelFacts& facts, size_t n_positions, bool with_gap) {
  ModelCost cost = {.weight_bytes = facts.memory.weight_bytes,
                    .scratch_bytes = facts.memory.scratch_bytes(n_positions),
                    .kv_bytes = facts.memory.kv_bytes(n_positions, with_gap)};
  if (n_positions == 0) return cost;
  cost.adapter_bytes = facts.adapter_bytes;
  cost.adapters = facts.adapters;
  return cost;
}

DescribeModel describe_with(std::string program, std::vector<std::string> arguments,
                            std::chrono::milliseconds time) {
  return [program = std::move(program), arguments = std::move(arguments), time](
             const std::string& path, const EngineChoice& wanted, std::stop_token stop) {
    std::vector<std::string> all = {"runner", "--describe", path};
    all.insert(all.end(), arguments.begin(), arguments.end());
    if (wanted.engine != Engine::kAuto)
      all.insert(all.end(), {"--engine", std::string(engine_name(wanted.engine))});
    for (const std::string& adapter : wanted.adapters)
      all.insert(all.end(), {"--adapter", adapter});
    if (!wanted.projector.empty()) all.insert(all.end(), {"--projector", wanted.projector});
    if (!wanted.draft.empty()) all.insert(all.end(), {"--draft", wanted.draft});
    ModelFacts facts = parse_model_facts(
        process::program_output(program, all, {.time = time, .stop = std::move(stop)}));
    for (const std::string& adapter : wanted.adapters) facts.adapters += adapter + "\n";
    return facts;
  };
}

}  // namespace billow::scheduler
