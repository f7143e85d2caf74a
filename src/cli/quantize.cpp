// billow quantize: quantises a model to a smaller file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/json.h"
#include "base/suggestion.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/client/status_line.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "cli/output_file.h"
#include "cli/progress_lines.h"
#include "cpu/cores.h"
#include "gguf/split.h"
#include "gguf/tensor_type.h"
#include "quantize/quantize.h"

namespace billow::cli {
namespace {

namespace fs = std::filesystem;

struct QuantizeOptions {
  std::string input;
  std::vector<std::string> rest;  // [OUTPUT] TYPE
  std::string importance;
  std::string output_type;
  std::string embedding_type;
  std::vector<std::string> patterns;
  bool pure = false;
  bool leave_output = false;
  bool allow_requantize = false;
  bool dry_run = false;
  bool json = false;
  bool progress_json = false;
  int n_threads = 0;
};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidInput, what); }

std::string joined(const std::vector<std::string_view>& names, const char* between) {
  return fmt::format("{}", fmt::join(names, between));
}

const quantize::FileType& file_type_of(const std::string& name) {
  if (const auto* found = quantize::find_file_type(name)) return *found;
  const std::vector<std::string_view> names = quantize::file_type_names();
  const std::string hint = did_you_mean(name, std::vector<std::string>(names.begin(), names.end()));
  refuse_usage("unknown type '" + name + "'" +
               (hint.empty() ? "; use one of " + joined(names, ", ") : hint));
}

quant::Type target_of(const std::string& name) {
  if (const auto found = quantize::find_target(name)) return *found;
  refuse("tensors cannot be quantised to '" + name + "'; use a type such as Q6_K or F16");
}

std::optional<quant::Type> optional_target(const std::string& name) {
  return name.empty() ? std::nullopt : std::optional(target_of(name));
}

// Parses PATTERN=TYPE. The pattern becomes lower case, as names of tensors are.
quantize::TypeOfPattern pattern_of(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) {
    refuse("--tensor-type " + text + ": write PATTERN=TYPE, such as ffn_down=Q6_K");
  }
  const std::string pattern = lower_case(text.substr(0, at));
  try {
    return {pattern, std::regex(pattern), target_of(text.substr(at + 1))};
  } catch (const std::regex_error&) {
    refuse("--tensor-type " + text + ": the pattern is not a regular expression");
  }
}

struct Paths {
  std::string output;
  std::string type;
};

// Returns the paths. The default output is next to the input and has its name with the type
// appended.
Paths paths_of(const QuantizeOptions& options) {
  Paths paths = {"", options.rest.back()};
  if (options.rest.size() > 1) {
    paths.output = options.rest.front();
  } else if (!options.dry_run) {
    const fs::path input(options.input);
    const std::string name(file_type_of(paths.type).name);
    paths.output = (input.parent_path() / (input.stem().string() + "-" + name + ".gguf")).string();
  }
  return paths;
}

quantize::Options quantize_options(const QuantizeOptions& options, const std::string& type,
                                   const quantize::Importance* importance) {
  quantize::Options out;
  out.mixture.file_type = &file_type_of(type);
  out.mixture.pure = options.pure;
  out.mixture.leave_output = options.leave_output;
  out.mixture.allow_requantize = options.allow_requantize;
  out.mixture.output_type = optional_target(options.output_type);
  out.mixture.embedding_type = optional_target(options.embedding_type);
  for (const std::string& text : options.patterns) out.mixture.patterns.push_back(pattern_of(text));
  out.importance = importance;
  out.importance_file = options.importance;
  return out;
}

std::string decision_text(const gguf::File& file, const quantize::Plan& plan, size_t i) {
  const quantize::Decision& decision = plan.decisions[i];
  const gguf::TensorInfo& info = file.tensors()[decision.tensor];
  const std::string from = gguf::tensor_type_name(info.type);
  const std::string to = gguf::tensor_type_name(decision.type);
  const std::string types = from == to ? from : from + " -> " + to;
  return fmt::format("[{}/{}] {}  {}  {}", i + 1, plan.decisions.size(), utf8::sanitized(info.name),
                     types, quantize::text_of(decision.reason));
}

struct Outcome {
  const gguf::File& file;
  const quantize::Plan& plan;
  const Paths& paths;
  double seconds = 0;
  int n_threads = 0;
};

Json outcome_json(const Outcome& outcome) {
  Json tensors = Json::array();
  for (const quantize::Decision& decision : outcome.plan.decisions) {
    const gguf::TensorInfo& info = outcome.file.tensors()[decision.tensor];
    tensors.push_back({{"name", utf8::sanitized(info.name)},
                       {"from", gguf::tensor_type_name(info.type)},
                       {"to", gguf::tensor_type_name(decision.type)},
                       {"why", quantize::text_of(decision.reason)}});
  }
  Json out = {{"type", file_type_of(outcome.paths.type).name},
              {"source_bytes", outcome.plan.source_bytes},
              {"target_bytes", outcome.plan.target_bytes},
              {"tensors", std::move(tensors)}};
  if (outcome.n_threads == 0) return out;  // a dry run
  out["output"] = utf8::sanitized(outcome.paths.output);
  out["seconds"] = outcome.seconds;
  out["n_threads"] = outcome.n_threads;
  return out;
}

std::string outcome_text(const Outcome& outcome) {
  const quantize::Plan& plan = outcome.plan;
  std::string text;
  if (outcome.n_threads == 0) {
    for (size_t i = 0; i < plan.decisions.size(); ++i) {
      text += decision_text(outcome.file, plan, i) + "\n";
    }
  }
  uint64_t n_elements = 0;
  for (const gguf::TensorInfo& info : outcome.file.tensors()) n_elements += info.n_elements();
  const double bits = 8.0 * static_cast<double>(plan.target_bytes);
  text += fmt::format("{} -> {}, {:.2f} bits per weight", format_byte_size(plan.source_bytes),
                      format_byte_size(plan.target_bytes),
                      n_elements == 0 ? 0.0 : bits / static_cast<double>(n_elements));
  if (outcome.n_threads == 0) return text + "\n";
  return text + fmt::format(", {:.1f} s with {} thread{}\n{}\n", outcome.seconds, outcome.n_threads,
                            outcome.n_threads == 1 ? "" : "s", outcome.paths.output);
}

// Writes the file. Returns how many seconds it took.
double write_file(const gguf::File& file, const quantize::Plan& plan,
                  const quantize::Options& options, const std::string& path, int n_threads,
                  bool progress_json) {
  const auto start = std::chrono::steady_clock::now();
  const Interrupt interrupt;
  StatusLine status;
  ProgressLines lines;
  std::string step;
  const quantize::Listener listener = {
      .tensor = [&](size_t i, const quantize::Decision&) { step = decision_text(file, plan, i); },
      .progress =
          [&](uint64_t n_done, uint64_t n_total) {
            if (const int signal = interrupt.signal()) {
              status.erase();
              throw CLI::RuntimeError(exit_status_of(signal));
            }
            progress_json ? lines.show(n_done, n_total) : status.show(step, n_done, n_total);
          }};
  OutputFile out(path);
  quantize::quantize(file, plan, options, n_threads, listener,
                     [&](std::span<const std::byte> piece) { out.write(piece); });
  out.commit();
  status.erase();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Refuses a new file that would replace a file of the model or the importance matrix.
void check_output(const gguf::File& file, const std::string& importance,
                  const std::string& output) {
  if (output == kStandardOutput) return;
  std::error_code ignored;
  if (fs::equivalent(file.path(), output, ignored)) refuse(output + " is the input itself");
  const gguf::SplitKeys keys = {.number = 0, .count = file.n_files(), .n_tensors = {}};
  for (const std::string& part : gguf::sibling_paths(keys, file.path()))
    if (fs::equivalent(part, output, ignored)) refuse(output + " is a part of the input");
  if (fs::equivalent(importance, output, ignored)) refuse(output + " is the importance matrix");
}

void make(const QuantizeOptions& options) {
  const Paths paths = paths_of(options);
  std::optional<quantize::Importance> importance;
  if (!options.importance.empty()) importance = quantize::read_importance(options.importance);
  const quantize::Options what =
      quantize_options(options, paths.type, importance ? &*importance : nullptr);
  const gguf::File file = gguf::File::open(options.input);
  const quantize::Plan plan = quantize::plan(file, what);
  Outcome outcome = {file, plan, paths};
  if (!options.dry_run) {
    check_output(file, options.importance, paths.output);
    outcome.n_threads = options.n_threads != 0 ? options.n_threads : cpu::usable_cores();
    outcome.seconds =
        write_file(file, plan, what, paths.output, outcome.n_threads, options.progress_json);
    if (paths.output == kStandardOutput) return;
  }
  const std::string text =
      options.json ? outcome_json(outcome).dump(2) + "\n" : outcome_text(outcome);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void run(const QuantizeOptions& options) {
  if (!options.progress_json) return make(options);
  ProgressLines::with_errors([&] { make(options); });
}

}  // namespace

void add_quantize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("quantize", "Quantise a model to a smaller file");
  auto options = std::make_shared<QuantizeOptions>();
  command->add_option("INPUT", options->input, "The model; for a split model, its first file")
      ->required();
  command
      ->add_option("[OUTPUT] TYPE", options->rest,
                   "The new file, or - for standard output (default: INPUT with the type appended "
                   "to its name), and one of " +
                       joined(quantize::file_type_names(), ", "))
      ->required()
      ->expected(1, 2);
  command->add_option("--imatrix", options->importance, "An importance matrix from billow imatrix");
  command->add_flag("--pure", options->pure, "Use the same type for all tensors");
  command->add_option("--output-tensor-type", options->output_type, "The type of output.weight");
  command->add_option("--token-embedding-type", options->embedding_type,
                      "The type of token_embd.weight");
  command
      ->add_option("--tensor-type", options->patterns,
                   "PATTERN=TYPE: the type of tensors whose name contains a match of the regular "
                   "expression; repeatable, the first match applies")
      ->take_all()
      ->expected(1);
  command->add_flag("--leave-output-tensor", options->leave_output, "Keep output.weight as it is");
  command->add_flag("--allow-requantize", options->allow_requantize,
                    "Accept a model that is already quantised; precision is lost twice");
  command->add_flag("--dry-run", options->dry_run,
                    "Show the type of each tensor and the size, and write nothing");
  command
      ->add_option("--threads", options->n_threads, "Number of threads; default: one for each core")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Print one JSON object");
  command->add_flag("--progress-json", options->progress_json,
                    "Report progress and errors as lines of JSON on standard error");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
