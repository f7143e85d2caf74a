#include "scheduler/model_facts.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "scheduler/program_output.h"

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
  facts.weight_bytes = count(json, "weight_bytes");
  facts.scratch_bytes = count(json, "scratch_bytes");
  const auto groups = json.find("kv_groups");
  if (groups == json.end() || !groups->is_array()) refuse("kv_groups");
  for (const Json& group : *groups) {
    if (!group.is_object()) refuse("kv_groups");
    facts.kv_groups.push_back({count(group, "bytes_per_position"), count(group, "window", false)});
  }
  return facts;
}

ModelCost cost_of(const ModelFacts& facts, size_t n_context) {
  uint64_t all = 0;
  for (const KvGroup& group : facts.kv_groups) {
    // A window's blocks go back as it passes; one more batch of them is there at a time.
    constexpr size_t kBatch = 512;
    const size_t kept = group.window == 0 ? n_context : std::min(n_context, group.window + kBatch);
    all = saturating_add(all, saturating_multiply(group.bytes_per_position, kept));
  }
  const uint64_t n = std::max<size_t>(1, n_context);
  return {.weight_bytes = facts.weight_bytes,
          .scratch_bytes = facts.scratch_bytes,
          .kv_bytes_per_position = all / n + (all % n != 0 ? 1 : 0)};
}

DescribeModel describe_with(std::string program, std::vector<std::string> arguments,
                            std::chrono::milliseconds time) {
  return [program = std::move(program), arguments = std::move(arguments), time](
             const std::string& path, std::stop_token stop) {
    std::vector<std::string> all = {"runner", "--describe", path};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return parse_model_facts(program_output(program, all, {.time = time, .stop = std::move(stop)}));
  };
}

}  // namespace billow::scheduler
