#include "api/llama/field_tables.h"

#include "api/openai/llama_rules.h"

namespace billow::api::llama {
namespace {

using enum Treatment;
using openai::joined_rules;
using openai::kLlamaRules;
using openai::kShapeRules;

constexpr const char* kCaching = "common prefixes of prompts are always cached";
constexpr const char* kDrafts =
    "the server measures how many tokens to draft; answers stay the same";
constexpr const char* kModel = "or ?model=NAME; optional if the store has only one model";

constexpr FieldRule kCompletionPrompt[] = {
    {"prompt", kHonoured,
     "a text, token ids, both mixed in a list, or a list of such prompts; a text with images"},
    {"n_cmpl", kHonoured, "choices for each prompt"},
};

constexpr FieldRule kInfillPrompt[] = {
    {"input_prefix"},
    {"input_suffix"},
    {"input_extra", kHonoured, "[{\"filename\",\"text\"}]"},
    {"prompt", kHonoured, "a text: the beginning of the answer"},
    {"n_cmpl", kHonoured, "number of answers"},
};

// llama.vim and llama.vscode send these with each request.
constexpr FieldRule kInfillShape[] = {
    {"n_indent", kIgnored, "the model decides how to indent"},
    {"t_max_prompt_ms", kIgnored, "llama-server has no such limit, either"},
    {"t_max_predict_ms", kIgnored, "limit the tokens, or close the connection"},
};

// The rows of both requests.
constexpr FieldRule kShared[] = {
    {"n", kHonoured, "same as n_cmpl, which takes precedence"},
    {"n_predict", kHonoured, "max_tokens takes precedence"},
    {"max_tokens"},
    {"max_completion_tokens", kHonoured, "max_tokens takes precedence"},
    {"stream"},
    {"stop"},
    {"temperature"},
    {"top_k"},
    {"top_p"},
    {"min_p"},
    {"typical_p"},
    {"repeat_penalty"},
    {"repeat_last_n"},
    {"presence_penalty"},
    {"frequency_penalty"},
    {"mirostat"},
    {"mirostat_tau"},
    {"mirostat_eta"},
    {"seed", kHonoured, "-1 and 4294967295: random"},
    {"logit_bias", kHonoured, "by token ids"},
    {"ignore_eos"},
    {"speculative.n_max", kHonoured, "max drafted tokens per pass; 0: none"},
    {"speculative.n_min", kIgnored, kDrafts},
    {"speculative.p_min", kIgnored, kDrafts},
    {"grammar", kHonoured, "GBNF if it contains ::=, otherwise Lark"},
    {"json_schema"},
    {"n_probs", kHonoured, "up to 20"},
    {"logprobs", kHonoured, "same as n_probs, which takes precedence"},
    {"response_fields"},
    {"cache_prompt", kIgnored, kCaching},
    {"id_slot", kHonoured, "names the slot that holds the text; -1: the server chooses"},
    {"return_progress", kRefused, "a stream sends keep-alive comments", "false"},
    {"timings_per_token", kRefused, "the last chunk has timings", "false"},
    {"model", kHonoured, kModel},
    // Fields of Ollama and this server.
    {"options", kHonoured, "same as in /api/generate; the fields above take precedence"},
    {"num_ctx"},
    {"keep_alive"},
    {"cache_salt", kHonoured, "text; requests with different salts share no prefixes"},
};

constexpr auto kCompletion = joined_rules(kCompletionPrompt, kShared, kLlamaRules, kShapeRules);
constexpr auto kInfill = joined_rules(kInfillPrompt, kShared, kLlamaRules, kInfillShape);

}  // namespace

const FieldTable kCompletionFields{"POST /completion", kCompletion};
const FieldTable kInfillFields{"POST /infill", kInfill};

}  // namespace billow::api::llama
