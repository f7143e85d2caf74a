// Rows that the tables of several requests share: fields of llama-server, which reads them on all
// of its routes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "api/field_rules.h"

namespace billow::api::openai {

// Returns the rows of all parts, in order.
template <size_t... N>
constexpr std::array<FieldRule, (N + ...)> joined_rules(const FieldRule (&... parts)[N]) {
  std::array<FieldRule, (N + ...)> all{};
  auto at = all.begin();
  ((at = std::ranges::copy(parts, at).out), ...);
  return all;
}

inline constexpr const char* kNoSampler = "this server has no such sampler";
inline constexpr const char* kWithoutRange =
    "it belongs to a sampler that this server does not have";
inline constexpr const char* kWholeGrammar = "a grammar applies from the beginning of the answer";
inline constexpr const char* kNoBudget =
    "nothing limits thinking alone; max_tokens limits the whole answer";

inline constexpr FieldRule kLlamaRules[] = {
    {"n_cache_reuse", Treatment::kIgnored, "common prefixes of prompts are always cached"},
    {"n_keep", Treatment::kIgnored, "the whole prompt stays when the context is full"},
    {"n_discard", Treatment::kIgnored,
     "the server decides how much to drop when the context is full"},
    {"samplers", Treatment::kIgnored, "samplers run in a fixed order"},
    {"backend_sampling", Treatment::kIgnored, "the server decides how to use the machine"},
    {"dynatemp_exponent", Treatment::kIgnored, kWithoutRange},
    {"dynatemp_range", Treatment::kRefused, kNoSampler, "0 0.0"},
    {"xtc_threshold", Treatment::kIgnored, kWithoutRange},
    {"xtc_probability", Treatment::kRefused, kNoSampler, "0 0.0"},
    {"top_n_sigma", Treatment::kRefused, kNoSampler, "-1 -1.0 0 0.0"},
    {"dry_multiplier", Treatment::kRefused, kNoSampler, "0 0.0"},
    {"dry_base", Treatment::kIgnored, kWithoutRange},
    {"dry_allowed_length", Treatment::kIgnored, kWithoutRange},
    {"dry_penalty_last_n", Treatment::kIgnored, kWithoutRange},
    {"dry_sequence_breakers", Treatment::kIgnored, kWithoutRange},
    {"adaptive_target", Treatment::kRefused, kNoSampler, "-1 -1.0 -0.01"},
    {"adaptive_decay", Treatment::kIgnored, kWithoutRange},
    {"min_keep", Treatment::kRefused, kNoSampler, "0"},
    {"grammar_lazy", Treatment::kRefused, kWholeGrammar, "false"},
    {"grammar_triggers", Treatment::kRefused, kWholeGrammar, "[]"},
    {"reasoning_budget_tokens", Treatment::kRefused, kNoBudget, "-1"},
    {"return_tokens", Treatment::kRefused, "use /tokenize", "false"},
    {"post_sampling_probs", Treatment::kRefused, "log probabilities are the model's own", "false"},
    {"preserved_tokens", Treatment::kRefused, "control tokens are never shown", "[]"},
    {"lora", Treatment::kRefused, "make a model with this ADAPTER", "[]"},
};

// Rows of these fields on all routes but /infill: editors always send them there.
inline constexpr FieldRule kShapeRules[] = {
    {"n_indent", Treatment::kRefused, "constrain the answer with a grammar", "0"},
    {"t_max_predict_ms", Treatment::kRefused, "limit the tokens, or close the connection", "0 -1"},
};

}  // namespace billow::api::openai
