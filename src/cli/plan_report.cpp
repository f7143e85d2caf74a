#include "cli/plan_report.h"

#include <fmt/format.h>

#include "base/byte_size.h"
#include "base/json.h"
#include "base/utf8.h"

namespace billow::cli {
namespace {

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

Json memory_json(const RequestMemory& memory) {
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
          {"state_bytes", memory.state},
          {"rungs", std::move(rungs)},
          {"scratch_bytes_start", memory.scratch_start},
          {"scratch_bytes_max", memory.scratch_max},
          {"total_bytes_start", memory.start()},
          {"total_bytes_max", memory.max()},
          {"usable_bytes", memory.usable},
          {"budget_bytes", memory.budget},
          {"fits", memory.fits()}};
}

std::string request_text(const PlanOptions& options, const arch::ModelInfo& model,
                         const Forecast& run) {
  std::string out = fmt::format("model     {}, {}, maximum context {}\n", options.model,
                                model.architecture, model.max_context);
  out += fmt::format("request   prompt of {} tokens, {} reserved for the answer: context {}\n",
                     options.n_prompt, run.size.n_answer, run.size.context);
  if (run.size.max_context < model.max_context)
    out += fmt::format("limit     context of at most {}\n", run.size.max_context);
  if (options.num_ctx > 0 && !options.caps()) {
    out += fmt::format("num_ctx   {} is ignored: a request gets the context that it needs\n",
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

std::string context_text(const Forecast& run) {
  std::string out = fmt::format("context   starts on rung {}\n", run.plan.first_rung);
  for (const context::ContextEvent& event : run.plan.events) {
    if (event.step != context::Step::kGrow) continue;
    out += fmt::format("          to rung {} at {} tokens, {} of them generated\n", event.to,
                       event.n_held, event.n_generated);
  }
  out += compaction_text(run);
  if (run.plan.context_full && run.context_plan.policy != context::OverflowPolicy::kStop) {
    out +=
        fmt::format("          no compaction: the prompt is more than half of the context of {}\n",
                    run.last_rung());
  }
  if (!run.n_generated) return out + "          continues until the model ends its answer\n";
  return out + fmt::format("          {} after {} generated tokens, on rung {}\n",
                           run.plan.context_full ? "ends with a full context" : "is done",
                           *run.n_generated, run.last_rung());
}

std::string memory_text(const RequestMemory& memory) {
  const auto size = [](uint64_t n) { return format_byte_size(n); };
  std::string out =
      fmt::format("weights   file {}; packed {}, and {} used directly from the file\n",
                  size(memory.file), size(memory.packed), size(memory.mapped));
  out += fmt::format("KV        {} a token", size(memory.kv_token));
  if (memory.kv_window_token != 0)
    out += fmt::format(", {} of it only within a window", size(memory.kv_window_token));
  if (memory.state != 0)
    out += fmt::format("; recurrent states {}, which do not grow", size(memory.state));
  out += "\n";
  for (const RungBytes& on : memory.rungs) {
    out += fmt::format("          on rung {}: {} a request", on.rung, size(on.one));
    if (memory.n_parallel > 1)
      out += fmt::format(", {} for {}", size(on.one * memory.n_parallel), memory.n_parallel);
    out += "\n";
  }
  out += fmt::format("scratch   at most {}", size(memory.scratch_start));
  if (memory.scratch_max != memory.scratch_start)
    out += fmt::format(" at the start, {} later", size(memory.scratch_max));
  out += "\n";
  out += fmt::format("total     {} at the start, {} at most\n", size(memory.start()),
                     size(memory.max()));
  const std::string budget =
      fmt::format("budget    {} of {} usable: ", size(memory.budget), size(memory.usable));
  if (memory.fits()) return out + budget + "fits\n";
  return out + budget + fmt::format("{} too little\n", size(memory.max() - memory.budget));
}

}  // namespace

std::string plan_text(const PlanOptions& options, const arch::ModelInfo& model, const Forecast& run,
                      const RequestMemory& memory) {
  return request_text(options, model, run) + context_text(run) + memory_text(memory);
}

Json plan_json(const PlanOptions& options, const arch::ModelInfo& model, const Forecast& run,
               const RequestMemory& memory) {
  Json out = {{"model", utf8::sanitized(options.model)},
              {"architecture", model.architecture},
              {"model_max_context", model.max_context},
              {"max_context", run.size.max_context},
              {"prompt_tokens", options.n_prompt},
              {"num_predict", options.num_predict},
              {"parallel", memory.n_parallel},
              {"context", run.size.context},
              {"answer_tokens_reserved", run.size.n_answer},
              {"num_ctx_ignored", options.num_ctx > 0 && !options.caps()},
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

}  // namespace billow::cli
