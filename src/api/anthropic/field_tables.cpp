#include "api/anthropic/field_tables.h"

namespace billow::api::anthropic {
namespace {

using enum Treatment;

constexpr const char* kAccounts = "it is for accounts of the provider";
constexpr const char* kCaching = "common prefixes of prompts are always cached";
constexpr const char* kThinking =
    "type; without it the model does not think, unless output_config has an effort; budget_tokens "
    "does not limit it";
constexpr const char* kOutput = "effort, format";
constexpr const char* kFormat = "same as output_config.format";
constexpr const char* kTools =
    "with input_schema; tools that run on Anthropic's servers are refused";
constexpr const char* kChoice = "auto, any, tool, none; disable_parallel_tool_use";
constexpr const char* kNoServers = "this server calls no tools; call them in the client";
constexpr const char* kNoContainer = "this server has nothing similar";
constexpr const char* kEdits =
    "the prompt is what the request sends; the model's template decides about the "
    "thinking of older turns";

constexpr const char* kWhole = "send the conversation as the model should see it";

constexpr FieldRule kMessage[] = {
    {"model"},
    {"messages"},
    {"max_tokens", kHonoured, "required"},
    {"system", kHonoured, "a text or text blocks"},
    {"stream"},
    {"stop_sequences"},
    {"temperature"},
    {"top_p"},
    {"top_k"},
    {"tools", kHonoured, kTools},
    {"tool_choice", kHonoured, kChoice},
    {"thinking", kHonoured, kThinking},
    {"output_config", kHonoured, kOutput},
    {"output_format", kHonoured, kFormat},
    {"cache_control", kIgnored, kCaching},
    {"metadata", kIgnored, kAccounts},
    {"service_tier", kIgnored, kAccounts},
    {"inference_geo", kIgnored, kAccounts},
    {"speed", kIgnored, kAccounts},
    {"billing_policy", kIgnored, kAccounts},
    {"user_profile_id", kIgnored, kAccounts},
    {"workspace_id", kIgnored, kAccounts},
    {"diagnostics", kIgnored, kCaching},
    {"fallbacks", kIgnored, "only the requested model answers"},
    {"context_management", kIgnored, kEdits},
    {"compaction", kRefused, kWhole},
    {"thread", kRefused, kWhole},
    {"mcp_servers", kRefused, kNoServers, "[]"},
    {"container", kRefused, kNoContainer},
    // Fields of this server.
    {"keep_alive", kHonoured, "same as in /api/chat"},
    {"cache_salt", kHonoured, "text; requests with different salts share no prefixes"},
    {"num_ctx", kHonoured, "same as in /api/chat"},
};

constexpr FieldRule kCount[] = {
    {"model"},
    {"messages"},
    {"system", kHonoured, "a text or text blocks"},
    {"tools", kHonoured, kTools},
    {"tool_choice", kHonoured, kChoice},
    {"thinking", kHonoured, kThinking},
    {"output_config", kHonoured, kOutput},
    {"output_format", kHonoured, kFormat},
    {"cache_control", kIgnored, kCaching},
    {"speed", kIgnored, kAccounts},
    {"user_profile_id", kIgnored, kAccounts},
    {"workspace_id", kIgnored, kAccounts},
    {"context_management", kIgnored, kEdits},
    {"mcp_servers", kRefused, kNoServers, "[]"},
};

}  // namespace

const FieldTable kMessageFields{"POST /v1/messages", kMessage};
const FieldTable kCountFields{"POST /v1/messages/count_tokens", kCount};

}  // namespace billow::api::anthropic
