#include "prompt/named_templates.h"

#include <algorithm>
#include <array>

namespace billow::prompt {
namespace {

// If a model has no system turn, its template begins with the system text.
constexpr std::string_view kAlfred =
    "{{ range .Messages }}<start_{{ .Role }}>{{ .Content }}<end_message>{{ end }}<start_assistant>";

constexpr std::string_view kAlpaca = R"({{ with .System }}{{ . }}

{{ end }}{{ range .Messages }}{{ if eq .Role "user" }}### Instruction:
{{ .Content }}

{{ else if eq .Role "assistant" }}### Response:
{{ .Content }}

{{ end }}{{ end }}### Response:
)";

constexpr std::string_view kChatml = R"({{ range $turn := .Messages }}<|im_start|>{{ $turn.Role }}
{{ $turn.Content }}<|im_end|>
{{ end }}<|im_start|>assistant
)";

constexpr std::string_view kChatqa = R"({{ range .Messages -}}
{{ if eq .Role "user" }}User{{ else if eq .Role "assistant" }}Assistant{{ else }}System{{ end -}}
: {{ .Content }}

{{ end }}Assistant:)";

constexpr std::string_view kCodellama =
    "{{ range .Messages }}Source: {{ .Role }}\n\n {{ .Content }} <step> {{ end -}}\n"
    "Source: assistant\nDestination: user\n\n ";

constexpr std::string_view kCommandR = R"({{ range .Messages }}<|START_OF_TURN_TOKEN|>
{{- if eq .Role "user" }}<|USER_TOKEN|>
{{- else if eq .Role "assistant" }}<|CHATBOT_TOKEN|>
{{- else }}<|SYSTEM_TOKEN|>
{{- end }}{{ .Content }}<|END_OF_TURN_TOKEN|>
{{- end }}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>)";

constexpr std::string_view kFalcon = R"({{ range .Messages -}}
{{ if eq .Role "system" }}System: {{ .Content }}
{{ else if eq .Role "user" }}User:
{{ .Content }}
{{ else if eq .Role "assistant" }}Falcon:
{{ .Content }}
{{ end }}{{ end }}Falcon:
)";

constexpr std::string_view kGemma = R"({{ $before := .System }}{{ range .Messages -}}
{{ if eq .Role "user" }}<start_of_turn>user
{{ with $before }}{{ . }}
{{ $before = "" }}{{ end }}{{ .Content }}<end_of_turn>
{{ else if eq .Role "assistant" }}<start_of_turn>model
{{ .Content }}<end_of_turn>
{{ end }}{{ end }}<start_of_turn>model
)";

// The system text goes into the second message. A line end follows the mark of the last turn.
constexpr std::string_view kGemma3 = R"({{ range $at, $turn := .Messages -}}
{{ if eq $turn.Role "user" }}<start_of_turn>user
{{ if eq $at 1 }}{{ with $.System }}{{ . }}

{{ end }}{{ end }}{{ $turn.Content }}<end_of_turn>
{{ else if eq $turn.Role "assistant" }}<start_of_turn>model
{{ $turn.Content }}<end_of_turn>
{{ end }}{{ end }}<start_of_turn>model

)";

constexpr std::string_view kGranite = R"({{ range .Messages -}}
{{ if eq .Role "user" }}Question{{ else if eq .Role "assistant" }}Answer{{ else }}System{{ end -}}
:
{{ .Content }}

{{ end }}Answer:
)";

constexpr std::string_view kLlama2 = R"({{ $before := .System }}[INST] {{ range .Messages -}}
{{ if eq .Role "user" }}<<SYS>>{{ with $before }}
{{ . }}
{{ $before = "" }}{{ end }}<</SYS>>

{{ .Content }} [/INST]{{ else if eq .Role "assistant" }} {{ .Content }}</s><s>[INST] {{ end -}}
{{ end }})";

constexpr std::string_view kLlama3 =
    "{{ range .Messages }}<|start_header_id|>{{ .Role }}<|end_header_id|>\n\n"
    "{{ .Content }}<|eot_id|>{{ end }}<|start_header_id|>assistant<|end_header_id|>\n\n";

constexpr std::string_view kMagicoder = R"({{ with .System }}{{ . }}

{{ end }}{{ range .Messages }}{{ if eq .Role "user" }}@@ Instruction
{{ .Content }}

{{ else if eq .Role "assistant" }}@@ Response
{{ .Content }}

{{ end }}{{ end }}@@ Response
)";

constexpr std::string_view kMistral = R"([INST] {{ with .System }}{{ . }}

{{ end }}{{ range .Messages }}{{ if eq .Role "user" }}{{ .Content }}[/INST]
{{- else if eq .Role "assistant" }} {{ .Content }}</s>[INST] {{ end }}{{ end }})";

constexpr std::string_view kOpenchat = R"({{ range .Messages }}GPT4 Correct
{{- if eq .Role "user" }} User{{ else if eq .Role "assistant" }} Assistant{{ else }} System{{ end -}}
: {{ .Content }}<|end_of_turn|>{{ end }}GPT4 Correct Assistant:)";

constexpr std::string_view kPhi3 = R"({{ range $turn := .Messages }}<|{{ $turn.Role }}|>
{{ $turn.Content }}<|end|>
{{ end }}<|assistant|>
)";

constexpr std::string_view kSolar = R"({{ range .Messages -}}
{{ if eq .Role "user" }}### User:
{{ .Content }}

{{ else if eq .Role "assistant" }}### Assistant:
{{ .Content }}</s>

{{ else }}### System:
{{ .Content }}

{{ end }}{{ end }}### Assistant:
)";

constexpr std::string_view kStarcoder2 = R"({{ with .System }}{{ . }}

{{ end }}{{ range .Messages }}{{ if eq .Role "user" }}### Instruction
{{ .Content }}

{{ else if eq .Role "assistant" }}### Response
{{ .Content }}<|endoftext|>

{{ end }}{{ end }}### Response
)";

constexpr std::string_view kVicuna = R"({{ with .System }}{{ . }}

{{ end }}{{ range .Messages }}{{ if eq .Role "user" }}USER: {{ .Content }}
{{ else if eq .Role "assistant" }}ASSISTANT: {{ .Content }}</s>
{{ end }}{{ end }}ASSISTANT:)";

constexpr std::string_view kZephyr = R"({{ range $turn := .Messages }}<|{{ $turn.Role }}|>
{{ $turn.Content }}</s>
{{ end }}<|assistant|>
)";

using Text = std::string_view;
constexpr Text kAlfredStops[] = {"<start_system>", "<end_message>", "<start_user>",
                                 "<start_assistant>"};
constexpr Text kAlpacaStops[] = {"### Instruction:", "### Response"};
constexpr Text kChatmlStops[] = {"<|im_start|>", "<|im_end|>"};
constexpr Text kChatqaStops[] = {"System:", "User:", "Assistant:", "<|begin_of_text|>"};
constexpr Text kCodellamaStops[] = {"Source:", "Destination:", "<step>"};
constexpr Text kCommandRStops[] = {"<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"};
constexpr Text kFalconStops[] = {"User:", "Assistant:"};
constexpr Text kGemmaStops[] = {"<start_of_turn>", "<end_of_turn>"};
constexpr Text kGemma3Stops[] = {"<end_of_turn>"};
constexpr Text kGraniteStops[] = {"System:", "Question:", "Answer:"};
constexpr Text kLlama2Stops[] = {"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"};
constexpr Text kLlama3Stops[] = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
constexpr Text kMagicoderStops[] = {"@@ Instruction", "@@ Response"};
constexpr Text kOpenchatStops[] = {"<|end_of_turn|>"};
constexpr Text kPhi3Stops[] = {"<|end|>", "<|system|>", "<|user|>", "<|assistant|>"};
constexpr Text kSolarStops[] = {"### System:", "### User:", "### Assistant"};
constexpr Text kStarcoder2Stops[] = {"### Instruction", "### Response", "<|endoftext|>"};
constexpr Text kVicunaStops[] = {"USER:", "ASSISTANT:"};
constexpr Text kZephyrStops[] = {"<|system|>", "</s>", "<|user|>", "<|assistant|>"};

constexpr std::array<NamedTemplate, 20> kTemplates{{
    {"alfred", kAlfred, kAlfredStops},
    {"alpaca", kAlpaca, kAlpacaStops},
    {"chatml", kChatml, kChatmlStops},
    {"chatqa", kChatqa, kChatqaStops},
    {"codellama-70b-instruct", kCodellama, kCodellamaStops},
    {"command-r", kCommandR, kCommandRStops},
    {"falcon-instruct", kFalcon, kFalconStops},
    {"gemma-instruct", kGemma, kGemmaStops},
    {"gemma3-instruct", kGemma3, kGemma3Stops},
    {"granite-instruct", kGranite, kGraniteStops},
    {"llama2-chat", kLlama2, kLlama2Stops},
    {"llama3-instruct", kLlama3, kLlama3Stops},
    {"magicoder", kMagicoder, kMagicoderStops},
    {"mistral-instruct", kMistral, kChatmlStops},
    {"openchat", kOpenchat, kOpenchatStops},
    {"phi-3", kPhi3, kPhi3Stops},
    {"solar-instruct", kSolar, kSolarStops},
    {"starcoder2-instruct", kStarcoder2, kStarcoder2Stops},
    {"vicuna", kVicuna, kVicunaStops},
    {"zephyr", kZephyr, kZephyrStops},
}};

// Identifies the Jinja texts of one named template. The lengths are those of the known texts, with
// room for small changes.
struct Marks {
  std::string_view name;
  size_t n_min;
  size_t n_max;
  std::array<std::string_view, 4> required;
  std::array<std::string_view, 3> forbidden;
};

constexpr std::array kMarks{
    Marks{"chatml", 100, 730, {"<|im_start|>", "<|im_end|>"}, {"<|im_sep|>"}},
    Marks{"chatml", 1750, 1950, {"<|im_start|>", "<|im_end|>", "You are DBRX"}, {}},
    Marks{"zephyr", 210, 510, {"'<|user|>", "'<|assistant|>", "eos_token"}, {"<|end|>"}},
    Marks{"phi-3", 150, 370, {"<|end|>", "<|assistant|>"}, {"<|im_start|>"}},
    Marks{"openchat", 150, 320, {"GPT4 Correct", "<|end_of_turn|>"}, {}},
    Marks{"mistral-instruct", 370, 580, {"[INST]", "[/INST]"}, {"<<SYS>>"}},
    Marks{"llama2-chat", 710, 920, {"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"}, {}},
    Marks{"starcoder2-instruct", 470, 680, {"### Instruction\n", "### Response\n"}, {}},
    Marks{"alpaca", 940, 1150, {"### Instruction:", "### Response:", "<|EOT|>"}, {}},
    Marks{"magicoder", 470, 680, {"@@ Instruction", "@@ Response"}, {}},
    Marks{"codellama-70b-instruct", 430, 640, {"Source: ", "Destination: user", "<step>"}, {}},
    Marks{"chatqa", 360, 790, {"User: ", "Assistant: ", "Assistant:'"}, {"###", "GPT4"}},
    Marks{"chatqa", 590, 790, {"User: ", "Assistant: ", "System: This is a chat"}, {"###"}},
    Marks{"gemma-instruct", 490, 700, {"<start_of_turn>", "<end_of_turn>"}, {"first_user_prefix"}},
    Marks{"gemma3-instruct", 1430, 1650, {"<start_of_turn>", "first_user_prefix"}, {}},
    Marks{"llama3-instruct", 290, 490, {"<|start_header_id|>", "<|eot_id|>"}, {}},
    Marks{"llama3-instruct",
          4510,
          4720,
          {"<|start_header_id|>", "<|python_tag|>", "tools_in_user_message", "26 Jul 2024"},
          {}},
    Marks{"granite-instruct", 280, 480, {"Question:\n", "Answer:\n", "System:\n"}, {}},
    Marks{"alfred", 430, 640, {"<start_user>", "<start_assistant>", "<end_message>"}, {}},
    Marks{"falcon-instruct", 240, 460, {"User: ", "Falcon:", "System: "}, {}},
    Marks{"solar-instruct", 310, 510, {"### System:", "### User:", "### Assistant:"}, {}},
    Marks{"command-r", 1100, 1310, {"<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"}, {}},
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool has_marks(std::string_view jinja, const Marks& marks) {
  const bool knows_tools = contains(jinja, "tool") && marks.n_max < 3'000;
  if (knows_tools || contains(jinja, "<think>") || jinja.size() < marks.n_min ||
      jinja.size() > marks.n_max) {
    return false;
  }
  return std::all_of(marks.required.begin(), marks.required.end(),
                     [&](std::string_view part) { return contains(jinja, part); }) &&
         std::none_of(marks.forbidden.begin(), marks.forbidden.end(), [&](std::string_view part) {
           return !part.empty() && contains(jinja, part);
         });
}

}  // namespace

std::span<const NamedTemplate> named_templates() { return kTemplates; }

const NamedTemplate* find_named_template(std::string_view name) {
  const auto* at = std::find_if(kTemplates.begin(), kTemplates.end(),
                                [&](const NamedTemplate& known) { return known.name == name; });
  return at == kTemplates.end() ? nullptr : at;
}

const NamedTemplate* detect_named_template(std::string_view jinja) {
  const auto* at = std::find_if(kMarks.begin(), kMarks.end(),
                                [&](const Marks& marks) { return has_marks(jinja, marks); });
  return at == kMarks.end() ? nullptr : find_named_template(at->name);
}

}  // namespace billow::prompt
