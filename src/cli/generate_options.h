// Options of `billow generate`, and the settings that follow from them for a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/answer.h"
#include "cli/client/generate_bulk.h"
#include "cli/constraint_options.h"
#include "cli/engine_options.h"
#include "cli/sampling_options.h"
#include "gguf/file.h"

namespace billow::cli {

struct GenerateSettings {
  engine::EngineOptions engine;
  AnswerSettings answer;
  size_t top_rung = 0;
};

struct GenerateOptions {
  ModelOptions model;
  SamplingFlags sampling;
  ConstraintFlags constraint;
  GenerateBulkOptions bulk;
  std::optional<std::string> prompt;
  std::string system;
  std::vector<std::string> stop;
  int64_t max_tokens = 24000;
  double max_time = 0.0;  // seconds
  int64_t max_context_size = 4096;
  std::vector<int64_t> context_sizes;
  std::string sampling_mode = "auto";
  std::string overflow_policy = "refill";
  int64_t overflow_reserve_batches = 9;
  int64_t overflow_batch = 64;
  std::string trace;
  bool think = false;
  bool chat = false;
  bool raw = false;
  bool ignore_eos = false;
  bool json = false;
  bool tokens = false;
  bool live_events = false;
  bool quiet = false;

  void declare(CLI::App& command);

  // Returns the settings for the model of `file`. Checks all that can be checked before the model
  // is loaded. If an option is invalid, refuses the usage (option_checks.h), or throws Error if the
  // file matters; the message names the option.
  GenerateSettings settings(const gguf::File& file) const;

 private:
  bool given(const char* name) const;  // on the command line
  void declare_prompt(CLI::App& command);
  void declare_answer(CLI::App& command);
  void declare_context(CLI::App& command);
  void declare_output(CLI::App& command);
  engine::SamplingOptions sampling_for(const gguf::File& file) const;
  void take_recommendations(const gguf::File& file, engine::SamplingOptions& options) const;
  size_t context_for(const gguf::File& file) const;
  context::OverflowPolicy policy() const;
  context::CompactionOptions compaction_within(size_t top_rung) const;
  std::vector<size_t> rungs() const;
  int64_t token_limit() const;
  std::optional<std::chrono::duration<double>> time_limit() const;

  const CLI::App* command_ = nullptr;
};

}  // namespace billow::cli
