#include "cli/engine_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/byte_size.h"
#include "base/error.h"
#include "cli/option_checks.h"
#include "cpu/memory.h"
#include "kernels/kv_names.h"

namespace billow::cli {
namespace {

constexpr const char* kGroup = "Model and machine";

// Parses FILE or FILE:SCALE. If a file with the whole text as its path exists, the text is FILE.
engine::AdapterFile parse_adapter(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text};
  const char* const begin = text.data() + colon + 1;
  const char* const end = text.data() + text.size();
  float scale = 0.0f;
  const auto [stop, error] = std::from_chars(begin, end, scale);
  if (error != std::errc() || stop != end || !std::isfinite(scale)) {
    throw Error(ErrorCode::kInvalidInput,
                "--adapter " + text + ": give FILE, or FILE:SCALE with a number as the scale");
  }
  return {text.substr(0, colon), scale};
}

}  // namespace

CLI::Option* add_kv_type(CLI::App& command, std::string& name) {
  std::vector<std::string> names;
  for (const kernels::KvTypeName& row : kernels::kKvTypeNames) names.emplace_back(row.name);
  return command
      .add_option("--kv-type", name,
                  "Format of keys and values: f16 (16 bits each), q8_0 (half the memory), q4_0 (a "
                  "quarter, less exact) or f32 (full precision)")
      ->check(CLI::IsMember(std::move(names)));
}

kernels::KvType kv_type_of(const std::string& name) {
  return kernels::find_kv_type(name).value_or(kernels::KvType::kInt16);
}

void ModelOptions::declare(CLI::App& command) {
  declare_without_context(command);
  command
      .add_option("--max-context", max_context, "Max tokens of a sequence; 0: the model's maximum")
      ->group(kGroup);
}

void ModelOptions::declare_without_context(CLI::App& command) {
  command.add_option("-m,--model", model, "GGUF file of the model")->required()->group(kGroup);
  command
      .add_option("--adapter", adapters,
                  "GGUF file of a LoRA adapter, whose changes are added to the model; FILE:SCALE "
                  "multiplies the changes by SCALE. Repeatable")
      ->type_name("FILE[:SCALE]")
      ->allow_extra_args(false)
      ->group(kGroup);
  command
      .add_option("-t,--threads", n_threads,
                  "Number of threads; 0: one for each usable physical core")
      ->check(CLI::Range(0, 1024))
      ->group(kGroup);
  add_kv_type(command, kv_type)->capture_default_str()->group(kGroup);
  command
      .add_option("--draft-max", max_draft,
                  "Max tokens to guess per pass from earlier text; answers stay the same, "
                  "but repetitive answers come sooner. 0: do not guess")
      ->check(CLI::Range(size_t{0}, kMaxDraft))
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--memory", memory,
                  "Max memory of all kinds together: 2G, 512M, a number of bytes, or a share of "
                  "what the process may use")
      ->check(memory_size())
      ->capture_default_str()
      ->group(kGroup);
  declare_packed_cache(command);
}

void ModelOptions::declare_packed_cache(CLI::App& command) {
  command
      .add_option("--packed-dir", packed_dir,
                  "Store the packed form of weights in this folder, so that the model loads faster "
                  "the next time; default: do not store it")
      ->group(kGroup);
  command
      .add_option("--packed-limit", packed_limit,
                  "Max size of that folder: bytes, or with K, M or G. The least recently loaded "
                  "models are evicted")
      ->check(byte_size())
      ->capture_default_str()
      ->group(kGroup);
}

void ModelOptions::declare_draft(CLI::App& command) {
  command
      .add_option(
          "--draft", draft,
          "GGUF file of a draft model: a small model with the same vocabulary, which guesses "
          "tokens if the earlier text gives no guess. Not loaded with --draft-max 0")
      ->type_name("FILE")
      ->group(kGroup);
}

engine::AdapterFiles ModelOptions::adapter_files() const {
  engine::AdapterFiles files;
  for (const std::string& text : adapters) files.push_back(parse_adapter(text));
  return files;
}

engine::EngineOptions ModelOptions::engine() const {
  engine::EngineOptions options;
  options.adapters = adapter_files();
  options.n_threads = n_threads;
  options.max_context = max_context;
  options.kv_type = kv_type_of(kv_type);
  options.max_draft = max_draft;
  options.draft_model = draft;
  options.memory_budget = parse_byte_size(memory, cpu::usable_memory());
  options.packed_cache.folder = {packed_dir, parse_byte_size(packed_limit)};
  return options;
}

}  // namespace billow::cli
