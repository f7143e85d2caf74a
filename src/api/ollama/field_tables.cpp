#include "api/ollama/field_tables.h"

namespace billow::api::ollama {
namespace {

using enum Treatment;

constexpr const char* kTextOnly = "answers are text";

constexpr FieldRule kGenerate[] = {
    {"model"},
    {"prompt"},
    {"suffix", kHonoured, "where the model's template has a place for it"},
    {"system"},
    {"template"},
    {"context", kHonoured, "of an earlier answer"},
    {"raw"},
    {"images", kHonoured, "where the model sees"},
    {"stream"},
    {"format", kHonoured, "\"json\" or a schema"},
    {"options"},
    {"keep_alive"},
    {"think", kHonoured, "true, false, \"low\", \"medium\", \"high\", \"max\""},
    {"truncate"},
    {"shift"},
    {"logprobs"},
    {"top_logprobs", kHonoured, "up to 20"},
    {"live_events", kHonoured, "this server's: transitions and compactions in the stream"},
    {"_debug_render_only"},
    {"width", kRefused, kTextOnly, "0"},
    {"height", kRefused, kTextOnly, "0"},
    {"steps", kRefused, kTextOnly, "0"},
};

constexpr FieldRule kChat[] = {
    {"model"},
    {"messages"},
    {"tools"},
    {"stream"},
    {"format", kHonoured, "\"json\" or a schema"},
    {"options"},
    {"keep_alive"},
    {"think", kHonoured, "true, false, \"low\", \"medium\", \"high\", \"max\""},
    {"truncate"},
    {"shift"},
    {"logprobs"},
    {"top_logprobs", kHonoured, "up to 20"},
    {"live_events", kHonoured, "this server's: transitions and compactions in the stream"},
    {"_debug_render_only"},
};

constexpr const char* kMachine = "the server decides what concerns the machine";
constexpr const char* kGone = "Ollama's engines have lost it, too";

constexpr FieldRule kOptions[] = {
    {"temperature"},
    {"top_k"},
    {"top_p"},
    {"min_p"},
    {"typical_p"},
    {"repeat_last_n"},
    {"repeat_penalty"},
    {"presence_penalty"},
    {"frequency_penalty"},
    {"seed"},
    {"stop"},
    {"num_predict"},
    {"mirostat", kHonoured, "in a request; a Modelfile drops it, as Ollama does"},
    {"mirostat_tau"},
    {"mirostat_eta"},
    {"num_ctx", kHonoured,
     "a cap with --num-ctx-policy cap; else contexts have the size they need"},
    {"num_keep", kIgnored, "what stays when the context is full is the prompt"},
    {"draft_num_predict", kHonoured, "drafted tokens of a pass; 0: none"},
    {"num_batch", kIgnored, kMachine},
    {"num_gpu", kIgnored, "of a model that runs on llama-server its PARAMETER counts"},
    {"engine", kRefused, "a model's PARAMETER engine says what runs it", "\"auto\""},
    {"main_gpu", kIgnored, kMachine},
    {"num_thread", kIgnored, kMachine},
    {"use_mmap", kIgnored, kMachine},
    {"use_mlock", kIgnored, kMachine},
    {"numa", kIgnored, kMachine},
    {"low_vram", kIgnored, kMachine},
    {"f16_kv", kIgnored, kMachine},
    {"logits_all", kIgnored, "ask for logprobs"},
    {"vocab_only", kIgnored, kMachine},
    {"penalize_newline", kIgnored, kGone},
    {"tfs_z", kIgnored, kGone},
};

}  // namespace

const FieldTable kGenerateFields{"POST /api/generate", kGenerate};
const FieldTable kChatFields{"POST /api/chat", kChat};
const FieldTable kOptionFields{"options", kOptions};

}  // namespace billow::api::ollama
