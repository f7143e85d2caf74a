#include "api/anthropic/field_tables.h"

namespace billow::api::anthropic {
namespace {

using enum Treatment;

constexpr const char* kAccounts = "it serves the provider's accounts";
constexpr const char* kCaching = "prompts that begin alike are always cached";
constexpr const char* kThinking =
    "type; without it the model does not think, unless output_config has an effort; budget_tokens "
    "does not limit it";
constexpr const char* kOutput = "effort, format";
constexpr const char* kFormat = "as output_config.format";
constexpr const char* kTools =
    "with input_schema; tools that run on Anthropic's servers are refused";
constexpr const char* kChoice = "auto, any, tool, none; disable_parallel_tool_use";
constexpr const char* kNoServers = "this server calls no tools; call them where the client runs";
constexpr const char* kNoContainer = "there is nothing like it here";
constexpr const char* kEdits =
    "a prompt has what the request sends; thinking of older turns is as "
    "the model's template has it";

constexpr const char* kWhole = "send the conversation as the model is to see it";

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
    {"fallbacks", kIgnored, "the model that is asked for answers"},
    {"context_management", kIgnored, kEdits},
    {"compaction", kRefused, kWhole},
    {"thread", kRefused, kWhole},
    {"mcp_servers", kRefused, kNoServers, "[]"},
    {"container", kRefused, kNoContainer},
    // Of this server.
    {"keep_alive", kHonoured, "as in /api/chat"},
    {"num_ctx", kHonoured, "as in /api/chat"},
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
