#include "api/ollama/field_tables.h"

namespace billow::api::ollama {
namespace {

using enum Treatment;

constexpr const char* kTextOnly = "answers are text";

constexpr FieldRule kGenerate[] = {
    {"model"},
    {"prompt"},
    {"suffix", kHonoured, "if the model's template supports it"},
    {"system"},
    {"template"},
    {"context", kHonoured, "tokens of an earlier answer"},
    {"raw"},
    {"images", kHonoured, "if the model supports images"},
    {"stream"},
    {"format", kHonoured, "\"json\" or a schema"},
    {"options"},
    {"keep_alive"},
    {"cache_salt", kHonoured, "text; requests with different salts share no prefixes"},
    {"think", kHonoured, "true, false, \"low\", \"medium\", \"high\", \"max\""},
    {"truncate"},
    {"shift"},
    {"logprobs"},
    {"top_logprobs", kHonoured, "up to 20"},
    {"live_events", kHonoured,
     "extension of this server: transitions and compactions in the stream"},
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
    {"cache_salt", kHonoured, "text; requests with different salts share no prefixes"},
    {"think", kHonoured, "true, false, \"low\", \"medium\", \"high\", \"max\""},
    {"truncate"},
    {"shift"},
    {"logprobs"},
    {"top_logprobs", kHonoured, "up to 20"},
    {"live_events", kHonoured,
     "extension of this server: transitions and compactions in the stream"},
    {"_debug_render_only"},
};

constexpr const char* kMachine = "the server decides how to use the machine";
constexpr const char* kGone = "Ollama's engines have removed it, too";

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
    {"mirostat", kHonoured, "only in requests; Modelfiles drop it, as in Ollama"},
    {"mirostat_tau"},
    {"mirostat_eta"},
    {"num_ctx", kHonoured,
     "a cap with --num-ctx-policy cap; otherwise contexts get the size that they need"},
    {"num_keep", kIgnored, "the whole prompt stays when the context is full"},
    {"draft_num_predict", kHonoured, "max drafted tokens per pass; 0: none"},
    {"num_batch", kIgnored, kMachine},
    {"num_gpu", kIgnored, "for models on llama-server, set PARAMETER num_gpu in the Modelfile"},
    {"engine", kRefused, "set PARAMETER engine in the Modelfile", "\"auto\""},
    {"main_gpu", kIgnored, kMachine},
    {"num_thread", kIgnored, kMachine},
    {"use_mmap", kIgnored, kMachine},
    {"use_mlock", kIgnored, kMachine},
    {"numa", kIgnored, kMachine},
    {"low_vram", kIgnored, kMachine},
    {"f16_kv", kIgnored, kMachine},
    {"logits_all", kIgnored, "use logprobs"},
    {"vocab_only", kIgnored, kMachine},
    {"penalize_newline", kIgnored, kGone},
    {"tfs_z", kIgnored, kGone},
};

}  // namespace

const FieldTable kGenerateFields{"POST /api/generate", kGenerate};
const FieldTable kChatFields{"POST /api/chat", kChat};
const FieldTable kOptionFields{"options", kOptions};

}  // namespace billow::api::ollama
