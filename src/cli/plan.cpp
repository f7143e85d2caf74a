// billow plan: what a request would be given, and what memory it would take and when, from the
// model's header alone: no weight is read.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/model.h"
#include "arch/scratch.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "context/run_plan.h"
#include "context/sizing.h"
#include "cpu/cores.h"
#include "cpu/memory.h"
#include "engine/engine.h"
#include "kv/layout.h"

namespace billow::cli {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;

struct PlanOptions {
  std::string model;
  int64_t n_prompt = 0;
  int64_t num_predict = context::kUnlimited;
  int64_t n_parallel = 1;
  int64_t num_ctx = 0;
  std::string num_ctx_policy = "ignore";
  int64_t max_context = 0;
  std::vector<int64_t> sizes;
  std::string overflow_policy = "refill";
  int64_t reserve_batches = 9;
  int64_t overflow_batch = 64;
  std::string kv_type = "f16";
  int64_t n_threads = 0;
  std::string memory = kDefaultMemory;
  bool json = false;

  bool caps() const { return num_ctx > 0 && num_ctx_policy == "cap"; }
};

size_t checked(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} is {}; give a number from {} to {}", option, value, least, most));
  }
  return static_cast<size_t>(value);
}

// How one request's context develops.
struct Forecast {
  context::Size size;
  context::Course course;
  context::RunPlan plan = {};  // whole, or as far as it takes to see what repeats
  // The first one; the others are like it.
  std::optional<context::ContextEvent> compaction = {};
  // Absent where nothing but the model ends the answer.
  std::optional<uint64_t> n_generated = {};
  std::optional<uint64_t> n_compactions = {};

  size_t last_rung() const { return plan.rungs.back().rung; }
  size_t again_each() const {
    const bool refills = course.policy == context::OverflowPolicy::kRefill;
    return compaction && refills ? compaction->compaction.keep : 0;
  }
};

context::OverflowPolicy policy_of(const PlanOptions& options) {
  // To fill the context is to stop where it is full.
  if (options.overflow_policy == "stop" || options.num_predict == context::kFillContext)
    return context::OverflowPolicy::kStop;
  return options.overflow_policy == "shift" ? context::OverflowPolicy::kShift
                                            : context::OverflowPolicy::kRefill;
}

context::Ladder ladder_of(const std::vector<int64_t>& wanted, size_t top) {
  std::vector<size_t> sizes;
  for (const int64_t size : wanted)
    sizes.push_back(checked("--context-sizes", size, 1, kMostTokens));
  return sizes.empty() ? context::Ladder(top) : context::Ladder(sizes, top);
}

context::RunPlan plan_of(const context::Course& course, size_t n_prompt, int64_t num_predict) {
  if (num_predict == 0) {  // the prompt alone
    context::RunPlan plan;
    plan.first_rung = course.ladder.first(n_prompt);
    plan.rungs.push_back({plan.first_rung, 0});
    plan.n_held = n_prompt;
    return plan;
  }
  // Beyond the second compaction all is as before.
  const size_t enough = 3 * course.ladder.top() + 2;
  const size_t n = num_predict < 0 ? enough : std::min(enough, static_cast<size_t>(num_predict));
  return context::plan_run(course, n_prompt, n);
}

context::Size size_of(const PlanOptions& options, size_t n_prompt, size_t model_context) {
  const size_t limit = checked("--max-context-size", options.max_context, 0, kMostTokens);
  const size_t num_ctx = checked("--num-ctx", options.num_ctx, 0, kMostTokens);
  return context::right_size(
      {.n_prompt = n_prompt,
       .num_predict = options.num_predict,
       .max_context = limit == 0 ? model_context : std::min(limit, model_context),
       .num_ctx_cap = options.caps() ? num_ctx : 0});
}

context::Course course_of(const PlanOptions& options, size_t n_prompt, size_t max_context) {
  return {
      .ladder = ladder_of(options.sizes, max_context),
      .policy = policy_of(options),
      .compaction = {checked("--overflow-reserve-batches", options.reserve_batches, 0, kMostTokens),
                     checked("--overflow-batch", options.overflow_batch, 1, kMostTokens)},
      .n_anchor = n_prompt};
}

Forecast forecast(const PlanOptions& options, size_t n_prompt, size_t model_context) {
  const context::Size size = size_of(options, n_prompt, model_context);
  Forecast run{.size = size, .course = course_of(options, n_prompt, size.max_context)};
  context::check_anchor(run.course, options.num_predict);
  run.plan = plan_of(run.course, n_prompt, options.num_predict);
  const auto first =
      std::ranges::find(run.plan.events, context::Step::kCompact, &context::ContextEvent::step);
  if (first != run.plan.events.end()) run.compaction = *first;
  if (run.plan.context_full) {
    run.n_generated = run.plan.n_generated;
    run.n_compactions = 0;
  } else if (options.num_predict >= 0) {
    const auto n = static_cast<uint64_t>(options.num_predict);
    run.n_generated = n;
    // Each gives room for as many tokens as it drops; the last token needs none.
    run.n_compactions =
        run.compaction ? (n - 1 - run.compaction->n_generated) / run.compaction->compaction.drop + 1
                       : 0;
  }
  return run;
}

struct RungBytes {
  size_t rung = 0;
  uint64_t one = 0;  // KV of one request
};

struct Memory {
  uint64_t file = 0;
  uint64_t mapped = 0;  // of the file, what is used beside packed weights
  uint64_t packed = 0;
  uint64_t kv_token = 0;         // KV of a token in all layers
  uint64_t kv_window_token = 0;  // of it, in layers that drop it when their window has passed
  std::vector<RungBytes> rungs;
  uint64_t scratch_start = 0;
  uint64_t scratch_most = 0;
  uint64_t usable = 0;
  uint64_t budget = 0;
  size_t n_parallel = 1;

  uint64_t start() const {
    return mapped + packed + scratch_start + rungs.front().one * n_parallel;
  }
  uint64_t most() const { return mapped + packed + scratch_most + rungs.back().one * n_parallel; }
  bool fits() const { return most() <= budget; }
};

Memory reckon(const PlanOptions& options, const gguf::File& file, const kv::Layout& layout,
              const nn::PackedWeights& packed, const Forecast& run) {
  const size_t n_batch = engine::EngineOptions{}.n_batch;
  const size_t n_threads = checked("--threads", options.n_threads, 0, 1024);
  Memory memory;
  memory.n_parallel = checked("--parallel", options.n_parallel, 1, 1024);
  memory.file = file.n_bytes();
  memory.mapped = file.n_bytes() - packed.n_source_bytes();
  memory.packed = packed.n_bytes();
  for (const kv::Group& group : layout.groups) {
    memory.kv_token += group.block_bytes / kv::kBlockPositions;
    if (group.window != 0) memory.kv_window_token += group.block_bytes / kv::kBlockPositions;
  }
  const bool with_gap = run.course.policy == context::OverflowPolicy::kShift;
  for (const context::RungTokens& part : run.plan.rungs)
    memory.rungs.push_back({part.rung, layout.bytes_for(part.rung, n_batch, with_gap)});
  const auto scratch_of = [&](size_t n_positions) {
    return arch::most_scratch_bytes(
        file, kernels::select_table(),
        {.n_rows = n_batch,
         .n_logit_rows = memory.n_parallel,
         .n_positions = n_positions,
         .n_threads = n_threads > 0 ? n_threads : static_cast<size_t>(cpu::usable_cores())});
  };
  memory.scratch_start = scratch_of(run.plan.first_rung);
  memory.scratch_most = scratch_of(run.last_rung());
  memory.usable = cpu::usable_memory();
  memory.budget = parse_byte_size(options.memory, memory.usable);
  return memory;
}

// ---- For programs.

Json transitions_json(const Forecast& run) {
  Json list = Json::array();
  for (const context::ContextEvent& event : run.plan.events) {
    if (event.step != context::Step::kGrow) continue;
    list.push_back({{"from", event.from},
                    {"to", event.to},
                    {"at_tokens", event.n_held},
                    {"at_generated", event.n_generated}});
  }
  return list;
}

Json compactions_json(const Forecast& run) {
  if (!run.compaction) return {{"count", 0}};
  const context::Compaction& each = run.compaction->compaction;
  Json out = {{"count", nullptr},
              {"first_at_generated", run.compaction->n_generated},
              {"every_generated", each.drop},
              {"anchor", each.anchor},
              {"drop", each.drop},
              {"keep", each.keep},
              {"evaluated_again_each", run.again_each()},
              {"evaluated_again", nullptr}};
  if (run.n_compactions) {
    out["count"] = *run.n_compactions;
    out["evaluated_again"] = *run.n_compactions * run.again_each();
  }
  return out;
}

const char* end_name(const Forecast& run) {
  if (run.plan.context_full) return "context full";
  return run.n_generated ? "done" : "model";
}

Json memory_json(const Memory& memory) {
  Json rungs = Json::array();
  for (const RungBytes& on : memory.rungs) {
    rungs.push_back({{"context", on.rung},
                     {"kv_bytes", on.one},
                     {"kv_bytes_parallel", on.one * memory.n_parallel}});
  }
  return {{"file_bytes", memory.file},
          {"mapped_bytes", memory.mapped},
          {"packed_bytes", memory.packed},
          {"kv_bytes_per_token", memory.kv_token},
          {"kv_bytes_per_token_in_windows", memory.kv_window_token},
          {"rungs", std::move(rungs)},
          {"scratch_bytes_start", memory.scratch_start},
          {"scratch_bytes_most", memory.scratch_most},
          {"total_bytes_start", memory.start()},
          {"total_bytes_most", memory.most()},
          {"usable_bytes", memory.usable},
          {"budget_bytes", memory.budget},
          {"fits", memory.fits()}};
}

Json report_json(const PlanOptions& options, const arch::ModelInfo& model, const Forecast& run,
                 const Memory& memory) {
  Json out = {{"model", utf8::sanitized(options.model)},
              {"architecture", model.architecture},
              {"model_max_context", model.max_context},
              {"max_context", run.size.max_context},
              {"prompt_tokens", options.n_prompt},
              {"num_predict", options.num_predict},
              {"parallel", memory.n_parallel},
              {"context", run.size.context},
              {"answer_tokens_reserved", run.size.n_answer},
              {"num_ctx_disregarded", options.num_ctx > 0 && !options.caps()},
              {"first_rung", run.plan.first_rung},
              {"last_rung", run.last_rung()},
              {"transitions", transitions_json(run)},
              {"compactions", compactions_json(run)},
              {"end", end_name(run)},
              {"generated_tokens", nullptr},
              {"memory", memory_json(memory)}};
  if (run.n_generated) out["generated_tokens"] = *run.n_generated;
  return out;
}

// ---- For people.

std::string request_text(const PlanOptions& options, const arch::ModelInfo& model,
                         const Forecast& run) {
  std::string out = fmt::format("model     {}, {}, maximum context {}\n", options.model,
                                model.architecture, model.max_context);
  out += fmt::format("request   prompt of {} tokens, {} reserved for the answer: context {}\n",
                     options.n_prompt, run.size.n_answer, run.size.context);
  if (run.size.max_context < model.max_context)
    out += fmt::format("limit     context of at most {}\n", run.size.max_context);
  if (options.num_ctx > 0 && !options.caps()) {
    out +=
        fmt::format("num_ctx   {} is disregarded: a request is given the context that it needs\n",
                    options.num_ctx);
  }
  return out;
}

std::string compaction_text(const Forecast& run) {
  if (!run.compaction) return "";
  const context::Compaction& each = run.compaction->compaction;
  const std::string again =
      run.again_each() == 0 ? "" : fmt::format(", {} evaluated again", run.again_each());
  std::string out = fmt::format(
      "          compaction of {} at {} generated tokens, then every {}: "
      "drop {}, keep {}{}\n",
      run.compaction->from, run.compaction->n_generated, each.drop, each.drop, each.keep, again);
  if (run.n_compactions) {
    out += fmt::format("          {} compactions in all, {} tokens evaluated again\n",
                       *run.n_compactions, *run.n_compactions * run.again_each());
  }
  return out;
}

std::string course_text(const Forecast& run) {
  std::string out = fmt::format("course    begins on rung {}\n", run.plan.first_rung);
  for (const context::ContextEvent& event : run.plan.events) {
    if (event.step != context::Step::kGrow) continue;
    out += fmt::format("          to rung {} at {} tokens, {} of them generated\n", event.to,
                       event.n_held, event.n_generated);
  }
  out += compaction_text(run);
  if (run.plan.context_full && run.course.policy != context::OverflowPolicy::kStop) {
    out +=
        fmt::format("          no compaction: the prompt is more than half of the context of {}\n",
                    run.last_rung());
  }
  if (!run.n_generated) return out + "          goes on until the model ends its answer\n";
  return out + fmt::format("          {} after {} generated tokens, on rung {}\n",
                           run.plan.context_full ? "ends with a full context" : "is done",
                           *run.n_generated, run.last_rung());
}

std::string memory_text(const Memory& memory) {
  const auto size = [](uint64_t n) { return format_byte_size(n); };
  std::string out =
      fmt::format("weights   file {}; packed {}, and {} used where they lie in the file\n",
                  size(memory.file), size(memory.packed), size(memory.mapped));
  out += fmt::format("KV        {} a token", size(memory.kv_token));
  if (memory.kv_window_token != 0)
    out += fmt::format(", {} of it within a window only", size(memory.kv_window_token));
  out += "\n";
  for (const RungBytes& on : memory.rungs) {
    out += fmt::format("          on rung {}: {} a request", on.rung, size(on.one));
    if (memory.n_parallel > 1)
      out += fmt::format(", {} for {}", size(on.one * memory.n_parallel), memory.n_parallel);
    out += "\n";
  }
  out += fmt::format("scratch   at most {}", size(memory.scratch_start));
  if (memory.scratch_most != memory.scratch_start)
    out += fmt::format(" at the start, {} later", size(memory.scratch_most));
  out += "\n";
  out += fmt::format("total     {} at the start, {} at the most\n", size(memory.start()),
                     size(memory.most()));
  const std::string budget =
      fmt::format("budget    {} of {} usable: ", size(memory.budget), size(memory.usable));
  if (memory.fits()) return out + budget + "fits\n";
  return out + budget + fmt::format("{} too little\n", size(memory.most() - memory.budget));
}

void run(const PlanOptions& options) {
  const size_t n_prompt = checked("--prompt-tokens", options.n_prompt, 1, kMostTokens);
  const gguf::File file = gguf::File::open(options.model);
  // Lists the matrices that are to be packed, which tells their size; nothing is packed.
  nn::PackedWeights packed(kernels::select_table(), arch::most_packed_bytes(file), {});
  const std::unique_ptr<arch::Model> model = arch::load_model(file, {.packed = &packed});
  const kv::Layout layout(model->info().kv, options.kv_type == "q8_0" ? kernels::KvType::kQ8_0
                                                                      : kernels::KvType::kInt16);
  const Forecast course = forecast(options, n_prompt, model->info().max_context);
  const Memory memory = reckon(options, file, layout, packed, course);
  const std::string out = options.json
                              ? report_json(options, model->info(), course, memory).dump(2) + "\n"
                              : request_text(options, model->info(), course) + course_text(course) +
                                    memory_text(memory);
  std::fwrite(out.data(), 1, out.size(), stdout);
}

void declare_context(CLI::App& command, PlanOptions& options) {
  command.add_option("--num-ctx", options.num_ctx, "The request's num_ctx; 0: none");
  command
      .add_option("--num-ctx-policy", options.num_ctx_policy,
                  "ignore: num_ctx is disregarded; cap: it limits the context")
      ->check(CLI::IsMember({"ignore", "cap"}))
      ->capture_default_str();
  command.add_option("--max-context-size", options.max_context,
                     "Tokens that a context may reach; 0: the model's maximum");
  command
      .add_option("--context-sizes", options.sizes,
                  "The rungs, with commas between; without: 512, doubling")
      ->delimiter(',');
  command
      .add_option("--overflow-policy", options.overflow_policy,
                  "When the context is full: refill, shift or stop")
      ->check(CLI::IsMember({"refill", "shift", "stop"}))
      ->capture_default_str();
  command
      .add_option("--overflow-reserve-batches", options.reserve_batches,
                  "Batches of recent tokens that a compaction keeps")
      ->capture_default_str();
  command.add_option("--overflow-batch", options.overflow_batch, "Tokens of such a batch")
      ->capture_default_str();
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "Tell what context and memory a request would take, and when");
  auto options = std::make_shared<PlanOptions>();
  command->add_option("-m,--model", options->model, "GGUF file of the model")->required();
  command->add_option("-p,--prompt-tokens", options->n_prompt, "Tokens of the prompt")->required();
  command
      ->add_option("-n,--num-predict", options->num_predict,
                   "Most tokens to write; -1: no limit; -2: until the context is full")
      ->capture_default_str();
  command->add_option("--parallel", options->n_parallel, "Such requests that run at once")
      ->capture_default_str();
  declare_context(*command, *options);
  command
      ->add_option("--kv-type", options->kv_type,
                   "How keys and values are kept: f16, 16 bits each, or q8_0 in half the memory")
      ->check(CLI::IsMember({"f16", "q8_0"}))
      ->capture_default_str();
  command->add_option("-t,--threads", options->n_threads,
                      "Threads; 0: as many as there are physical cores to use");
  command
      ->add_option("--memory", options->memory,
                   "What there is to use: 2G, 512M, or a share of this machine's or group's")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
