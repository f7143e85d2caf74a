#include "cli/client/tables.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "cli/client/show_text.h"
#include "store/name.h"

namespace billow::cli {
namespace {

constexpr size_t kShownDigits = 12;  // digits of a digest

std::vector<Json> models_of(const Json& reply) {
  if (!reply.is_object() || !reply.contains("models") || !reply["models"].is_array()) return {};
  return {reply["models"].begin(), reply["models"].end()};
}

}  // namespace

std::string processor_text(uint64_t n_bytes, uint64_t n_gpu_bytes) {
  if (n_gpu_bytes == 0) return "100% CPU";
  if (n_gpu_bytes == n_bytes) return "100% GPU";
  if (n_gpu_bytes > n_bytes) return "Unknown";
  const double share = static_cast<double>(n_bytes - n_gpu_bytes) / static_cast<double>(n_bytes);
  const long cpu = std::lround(share * 100);
  return fmt::format("{}%/{}% CPU/GPU", cpu, 100 - cpu);
}

std::string list_table(const Json& reply, std::string_view prefix, WallTime now) {
  std::vector<Row> rows;
  for (const Json& model : models_of(reply)) {
    const std::string name = text_field(model, "name");
    if (!equal_ignoring_case(std::string_view(name).substr(0, prefix.size()), prefix)) {
      continue;
    }
    const bool is_remote = !text_field(model, "remote_model").empty();
    rows.push_back({name, text_field(model, "digest").substr(0, kShownDigits),
                    is_remote ? "-" : human_bytes(count_field(model, "size")),
                    relative_time(parse_time(text_field(model, "modified_at")), now)});
  }
  return table_text({"NAME", "ID", "SIZE", "MODIFIED"}, rows);
}

std::string ps_table(const Json& reply, std::string_view prefix, WallTime now) {
  std::vector<Row> rows;
  for (const Json& model : models_of(reply)) {
    const std::string name = text_field(model, "name");
    if (!name.starts_with(prefix)) continue;
    const uint64_t n_bytes = count_field(model, "size");
    const auto expires = parse_time(text_field(model, "expires_at"));
    rows.push_back({name, text_field(model, "digest").substr(0, kShownDigits), human_bytes(n_bytes),
                    processor_text(n_bytes, count_field(model, "size_vram")),
                    std::to_string(count_field(model, "context_length")),
                    expires && *expires < now ? "Stopping..." : relative_time(expires, now)});
  }
  return table_text({"NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"}, rows);
}

}  // namespace billow::cli
