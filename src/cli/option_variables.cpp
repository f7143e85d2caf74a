#include "cli/option_variables.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"
#include "cli/option_checks.h"
#include "cli/variable.h"

namespace billow::cli {
namespace {

// Who checks the values of a variable. If it is not the option, the values of the option have
// another form, or a wrong value must not be ignored.
enum class CheckedBy : uint8_t { kOption, kReader };

struct Row {
  std::string_view option;
  std::string_view variable;
  CheckedBy checked_by;
};

// A test compares the table with docs/operations.md.
constexpr Row kRows[] = {
    {"host", "HOST", CheckedBy::kReader},
    {"origins", "ORIGINS", CheckedBy::kReader},
    {"api-keys", "API_KEYS", CheckedBy::kReader},
    {"max-queue", "MAX_QUEUE", CheckedBy::kReader},
    {"models", "MODELS", CheckedBy::kReader},
    {"parallel", "NUM_PARALLEL", CheckedBy::kReader},
    {"max-loaded-models", "MAX_LOADED_MODELS", CheckedBy::kOption},
    {"keep-alive", "KEEP_ALIVE", CheckedBy::kReader},
    {"packed-limit", "PACKED_LIMIT", CheckedBy::kOption},
    {"sessions-limit", "SESSIONS_LIMIT", CheckedBy::kOption},
    {"kv-type", "KV_CACHE_TYPE", CheckedBy::kReader},
    {"stream-interval", "STREAM_INTERVAL", CheckedBy::kOption},
    {"max-pass-time", "MAX_PASS_TIME", CheckedBy::kOption},
    {"draft-max", "DRAFT_MAX", CheckedBy::kOption},
    {"n-batch", "N_BATCH", CheckedBy::kOption},
    {"n-ubatch", "N_UBATCH", CheckedBy::kOption},
    {"n-seq-max", "N_SEQ_MAX", CheckedBy::kOption},
    {"context-size", "CONTEXT_SIZE", CheckedBy::kOption},
    {"max-batches", "MAX_BATCHES", CheckedBy::kOption},
    {"engine", "ENGINE", CheckedBy::kReader},
    {"llama-server", "LLAMA_SERVER", CheckedBy::kReader},
    {"otlp", "OTLP", CheckedBy::kOption},
    {"registry-mirror", "REGISTRY_MIRROR", CheckedBy::kOption},
    {"web-page", "WEB_PAGE", CheckedBy::kReader},
};

constexpr std::string_view kPrefixes[] = {"BILLOW_", "OLLAMA_"};

std::string value_of(const std::string& name) {
  return std::string(trimmed(trimmed(variable(name).value_or("")), "\"'"));
}

// Returns the row of BILLOW_NAME or OLLAMA_NAME if its option checks the values, otherwise null.
const Row* checked_row(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    const Row* row = std::ranges::find(kRows, name.substr(prefix.size()), &Row::variable);
    return row == std::end(kRows) || row->checked_by != CheckedBy::kOption ? nullptr : row;
  }
  return nullptr;
}

}  // namespace

std::string_view variable_of(std::string_view key) {
  const Row* row = std::ranges::find(kRows, key, &Row::option);
  return row == std::end(kRows) ? std::string_view() : row->variable;
}

std::string deciding_variable(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    std::string full = fmt::format("{}{}", prefix, name);
    if (!value_of(full).empty()) return full;
  }
  return {};
}

scheduler::Lookup checked_variables(const CLI::App& command, scheduler::Warn warn) {
  return [&command, warn = std::move(warn)](const std::string& name) -> std::optional<std::string> {
    const Row* row = checked_row(name);
    if (row == nullptr) return variable(name);
    if (deciding_variable(row->variable) != name) return std::nullopt;
    std::string value = value_of(name);
    const std::string fault = fault_of(*command.get_option("--" + std::string(row->option)), value);
    if (fault.empty()) return value;
    warn(fmt::format("{}: {}; the default is used", name, fault));
    return std::nullopt;
  };
}

}  // namespace billow::cli
