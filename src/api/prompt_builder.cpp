#include "api/prompt_builder.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "api/conversation.h"
#include "api/error_texts.h"
#include "api/tool_fields.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "context/truncation.h"
#include "http/status.h"
#include "prompt/named_templates.h"

namespace billow::api {
namespace {

using http::StatusError;

// Max tokens that a shortened prompt leaves for the answer, unless num_predict says how many.
constexpr size_t kAnswerRoom = 1024;

size_t shortened_limit(const PromptLimits& limits) {
  const size_t wanted =
      limits.num_predict > 0 ? static_cast<size_t>(limits.num_predict) : kAnswerRoom;
  return limits.max_context - std::min(wanted, limits.max_context / 4);
}

bool fits(size_t n_prompt, const PromptLimits& limits) {
  const size_t n_answer = limits.num_predict == 0 ? 0 : 1;
  return n_prompt <= limits.max_context - n_answer;
}

[[noreturn]] void refuse_length(size_t n_prompt, const PromptLimits& limits) {
  const std::string prompt = std::to_string(n_prompt);
  const std::string context = std::to_string(limits.max_context);
  // Clients shorten a conversation if they find the words of their provider: the first words are
  // Ollama's, "prompt is too long" is Anthropic's and "maximum context length" OpenAI's.
  throw StatusError(400, std::string(kPromptTooLong) + ": it has " + prompt +
                             " tokens, the context " + context +
                             "; shorten the prompt, adjust the context length in settings, or use "
                             "a model with a longer context length (prompt is too long: " +
                             prompt + " tokens > " + context +
                             " maximum; the maximum context length is " + context + " tokens)");
}

bool begins_with_added_bos(const tokenizer::Tokenizer& tokenizer,
                           const std::vector<int32_t>& tokens) {
  return tokenizer.add_bos() && !tokens.empty() && tokens.front() == tokenizer.bos();
}

// Tokenises a prompt's text: after earlier tokens, or with the BOS that the model's vocabulary
// adds.
std::vector<int32_t> tokens_of(const ServedModel& model, const std::string& text,
                               const std::vector<int32_t>& before = {},
                               const PromptCheck* check = nullptr) {
  const tokenizer::Tokenizer& tokenizer = model.weights->tokenizer;
  const std::string bos =
      tokenizer.has(tokenizer.bos()) ? std::string(tokenizer.text(tokenizer.bos())) : "";
  // Many templates write the BOS themselves; a second BOS makes answers worse.
  const bool has_bos = !bos.empty() && text.starts_with(bos);
  const std::string_view rest =
      !before.empty() && has_bos ? std::string_view(text).substr(bos.size()) : text;
  std::vector<int32_t> tokens;
  if (!before.empty() && tokenizer.add_bos() && !begins_with_added_bos(tokenizer, before))
    tokens.push_back(tokenizer.bos());
  tokens.insert(tokens.end(), before.begin(), before.end());
  const std::vector<int32_t> own = tokenizer.encode(
      rest, {.add_special = before.empty() && !has_bos, .parse_special = true, .check = check});
  tokens.insert(tokens.end(), own.begin(), own.end());
  return tokens;
}

// Tokenises a prompt's text with images. Each text between images becomes tokens separately. The
// pieces of an image are a part of the text, and its own tokens are context::kPictureToken.
void place_images(const ServedModel& model, const PromptImages& images,
                  const PromptImages::Text& placed, const std::vector<int32_t>& before,
                  BuiltPrompt& built) {
  const tokenizer::Tokenizer& tokenizer = model.weights->tokenizer;
  const bool adds_bos = tokenizer.add_bos() && tokenizer.has(tokenizer.bos());
  std::string_view rest = placed.text;
  size_t n_cut = 0;
  built.tokens.clear();
  built.images.clear();
  built.text_of_tokens.clear();
  if (adds_bos) {
    const std::string_view bos = tokenizer.text(tokenizer.bos());
    if (!bos.empty() && rest.starts_with(bos)) n_cut = bos.size();
    built.tokens.push_back(tokenizer.bos());
  }
  rest.remove_prefix(n_cut);
  std::string earlier;
  for (const int32_t token : before) {
    if (adds_bos && token == tokenizer.bos() && built.tokens.size() == 1) continue;
    built.tokens.push_back(token);
    earlier += tokenizer.piece(token, true);
  }
  // The text is sent as JSON, where invalid UTF-8 would move the places of images.
  built.text_of_tokens = utf8::sanitized(earlier);
  size_t from = n_cut;
  std::string text;  // that is not tokenised yet
  const auto take_to = [&](size_t to) {
    text += std::string_view(placed.text).substr(from, to - from);
    from = to;
  };
  const auto tokenise = [&] {
    const std::vector<int32_t> own =
        tokenizer.encode(text, {.add_special = false, .parse_special = true});
    built.tokens.insert(built.tokens.end(), own.begin(), own.end());
    built.text_of_tokens += utf8::sanitized(text);
    text.clear();
  };
  for (const PromptImages::Place& place : placed.places) {
    take_to(std::max(from, place.at));
    const ModelPictures::Space& space = images.space(place.image);
    if (space.pieces.empty()) tokenise();
    built.images.push_back({.place = {.at = built.tokens.size(),
                                      .text_at = built.text_of_tokens.size(),
                                      .n_rows = space.n_rows,
                                      .png = {}},
                            .bytes = images.bytes(place.image),
                            .index = place.image});
    for (const vision::Piece& piece : space.pieces) {
      text += piece.text;
      if (piece.n_tokens == 0) continue;
      tokenise();
      built.tokens.insert(built.tokens.end(), piece.n_tokens, context::kPictureToken);
    }
  }
  take_to(placed.text.size());
  tokenise();
}

// Tokenises rendered text and places its images, if any.
void take_text(const ServedModel& model, const PromptImages& images, const std::string& rendered,
               const std::vector<int32_t>& before, const PromptCheck& check, BuiltPrompt& built) {
  PromptImages::Text placed = images.placed(rendered);
  if (placed.places.empty()) {
    built.tokens = tokens_of(model, placed.text, before, &check);
    built.images.clear();
  } else {
    place_images(model, images, placed, before, built);
  }
  built.text = std::move(placed.shown);
}

void check_tokens(const ServedModel& model, const std::vector<int32_t>& tokens, const char* field) {
  for (const int32_t token : tokens)
    if (!model.weights->tokenizer.has(token))
      throw StatusError(400, std::string(field) + " has the id " + std::to_string(token) +
                                 ", which is not a token of the model");
}

// Returns where in the model's format the answer to `built` begins.
output::Start start_of(const ServedModel& model, const Conversation& conversation,
                       const BuiltPrompt& built) {
  output::StartHints hints{.thinks = conversation.think.enabled.value_or(false),
                           .continues_thinking = built.ends_in_thinking};
  const Message* last = conversation.messages.empty() ? nullptr : &conversation.messages.back();
  std::string begun;
  if (last != nullptr && last->role == "assistant" && last->tool_calls().empty()) {
    begun = last->text();
    hints.text = begun;
  }
  return output::start_of(model.format, built.text, hints);
}

// Estimated tokens that a template adds around a message.
constexpr size_t kTokensAround = 4;

context::ChatRole role_of(const std::string& role) {
  if (role == "system" || role == "developer") return context::ChatRole::kSystem;
  if (role == "user") return context::ChatRole::kQuestion;
  if (role == "tool" || role == "function" || role == "ipython") return context::ChatRole::kResult;
  return context::ChatRole::kAnswer;
}

// Renders parts of a conversation and counts their tokens.
class Renderer {
 public:
  Renderer(const ServedModel& model, const Conversation& conversation, const prompt::GoTemplate* go,
           size_t limit, const PromptCheck& check)
      : model_(model), conversation_(conversation), go_(go), limit_(limit), check_(check) {}

  // Returns the number of tokens of a prompt with these messages. Returns SIZE_MAX if they exceed a
  // template's limits. Throws http::StatusError (400) if the template refuses them.
  size_t count(std::span<const size_t> kept, const std::vector<int32_t>& before = {}) {
    if (check_) check_();
    ++n_renderings_;
    BuiltPrompt built;
    std::string refusal;
    try {
      const Rendering rendering = render_conversation(model_, conversation_, kept, go_);
      built.ends_in_thinking = rendering.ends_in_thinking;
      take_text(model_, conversation_.images, rendering.text, before, check_, built);
    } catch (const Error& error) {
      const bool is_too_large = error.code() == ErrorCode::kTooLarge;
      if (!is_too_large && error.code() != ErrorCode::kInvalidInput) throw;
      refusal = std::string("the model's template refuses the conversation: ") + error.what();
      if (!is_too_large) throw StatusError(400, refusal);
    }
    if (refusal.empty()) check_images(kept, built);
    const size_t n_tokens = refusal.empty() ? built.n_positions() : SIZE_MAX;
    if (n_tokens <= limit_ || n_kept_ > limit_) {
      n_kept_ = n_tokens;
      built_ = std::move(built);
      refusal_ = std::move(refusal);
    }
    return n_tokens;
  }

  // Estimates how many tokens a message adds to a prompt. The estimate depends only on the message
  // and, for thinking, on the last question: templates drop the thinking before it.
  size_t estimate(const Message& message, bool is_before_question) const {
    if (check_) check_();
    const PromptImages::Text placed = conversation_.images.placed(message.text());
    size_t n_tokens = kTokensAround + count_text(placed.text);
    for (const PromptImages::Place& place : placed.places)
      n_tokens += conversation_.images.space(place.image).n_positions();
    if (!is_before_question) n_tokens += count_text(message.thinking());
    const Json calls = tool_calls_json(message.tool_calls());
    return calls.empty() ? n_tokens : n_tokens + count_text(calls.dump());
  }
  size_t estimate_tools() const {
    return conversation_.tools.is_array() ? count_text(conversation_.tools.dump()) : 0;
  }

  // Takes the latest rendering within the limit, or the latest one if none fits. Throws
  // http::StatusError (400) if the input exceeded a template's limits.
  void take(BuiltPrompt& built) {
    if (!refusal_.empty()) throw StatusError(400, refusal_);
    built.text = std::move(built_.text);
    built.tokens = std::move(built_.tokens);
    built.images = std::move(built_.images);
    built.text_of_tokens = std::move(built_.text_of_tokens);
    built.ends_in_thinking = built_.ends_in_thinking;
    built.n_renderings = n_renderings_;
  }

 private:
  // Throws if the template has dropped an image, so that nothing is lost silently.
  void check_images(std::span<const size_t> kept, const BuiltPrompt& built) const {
    for (const size_t i : kept) {
      for (const size_t image : conversation_.images.of_message(i)) {
        if (std::ranges::find(built.images, image, &BuiltImage::index) != built.images.end())
          continue;
        throw StatusError(400, "the model's template has no place for image " +
                                   std::to_string(image + 1) +
                                   ", which is in a message with role \"" +
                                   conversation_.messages[i].role + "\"");
      }
    }
  }

  size_t count_text(const std::string& text) const {
    if (text.empty()) return 0;
    return model_.weights->tokenizer.encode(text, {.add_special = false, .parse_special = true})
        .size();
  }

  const ServedModel& model_;
  const Conversation& conversation_;
  const prompt::GoTemplate* go_;
  const size_t limit_;
  const PromptCheck& check_;
  size_t n_renderings_ = 0;
  size_t n_kept_ = SIZE_MAX;  // tokens of the stored rendering
  BuiltPrompt built_;
  std::string refusal_;  // why there is no rendering
};

std::vector<context::ChatMessage> estimated(const Renderer& renderer,
                                            const Conversation& conversation) {
  const std::vector<Message>& messages = conversation.messages;
  const auto question = std::find_if(messages.rbegin(), messages.rend(),
                                     [](const Message& one) { return one.role == "user"; });
  const auto n_before = static_cast<size_t>(messages.rend() - question);
  std::vector<context::ChatMessage> estimates;
  estimates.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i)
    estimates.push_back({role_of(messages[i].role), renderer.estimate(messages[i], i < n_before)});
  return estimates;
}

// Drops whole turns, oldest first, until the prompt fits.
void shorten(BuiltPrompt& built, Renderer& renderer, const ServedModel& model,
             const Conversation& conversation, const PromptLimits& limits) {
  const std::vector<context::ChatMessage> messages = estimated(renderer, conversation);
  const size_t n_tools = renderer.estimate_tools();
  if (built.n_full == SIZE_MAX)
    built.n_full =
        std::accumulate(messages.begin(), messages.end(), n_tools,
                        [](size_t n, const context::ChatMessage& m) { return n + m.n_tokens; });
  const context::FittingMessages fitting =
      context::fitting_messages(messages, shortened_limit(limits), n_tools, built.n_full,
                                [&](std::span<const size_t> kept) { return renderer.count(kept); });
  renderer.take(built);
  // The prompt may have used the room reserved for the answer.
  if (!fits(built.n_positions(), limits)) refuse_length(built.n_positions(), limits);
  built.n_left_out = messages.size() - fitting.kept.size();
  log::warn(model.name + ": the oldest messages were left out (" +
            std::to_string(built.n_left_out) + " of " + std::to_string(messages.size()) +
            "): the prompt had " + std::to_string(built.n_full) + " tokens, now " +
            std::to_string(built.n_positions()) + ", of a context of " +
            std::to_string(limits.max_context));
}

// Builds the prompt of a conversation. Shortens it if it is too long and the request allows that.
BuiltPrompt build_conversation(const ServedModel& model, const GenerationRequest& request,
                               const Conversation& conversation, const prompt::GoTemplate* go,
                               const PromptLimits& limits, const PromptCheck& check) {
  BuiltPrompt built;
  Renderer renderer(model, conversation, go, shortened_limit(limits), check);
  std::vector<size_t> all(conversation.messages.size());
  std::iota(all.begin(), all.end(), size_t{0});
  built.n_full = renderer.count(all, request.context);
  const bool may_shorten =
      request.truncate && request.shift.value_or(true) && request.context.empty();
  if (!fits(built.n_full, limits) && may_shorten) {
    shorten(built, renderer, model, conversation, limits);
  } else {
    renderer.take(built);
    if (!fits(built.n_full, limits)) refuse_length(built.n_full, limits);
  }
  return built;
}

BuiltPrompt of_text(const ServedModel& model, std::string text, const PromptLimits& limits,
                    const std::vector<int32_t>& before = {}) {
  BuiltPrompt built;
  built.text = std::move(text);
  built.tokens = tokens_of(model, built.text, before);
  built.n_full = built.tokens.size();
  if (!fits(built.n_full, limits)) refuse_length(built.n_full, limits);
  return built;
}

// Builds a raw prompt.
BuiltPrompt of_raw(const ServedModel& model, const GenerationRequest& request,
                   const PromptLimits& limits) {
  if (request.images.empty()) return of_text(model, request.prompt, limits);
  PromptImages images(model.weights->pictures ? &*model.weights->pictures : nullptr);
  const std::string marked = images.add_raw(request.images, request.prompt, request.image_marker);
  BuiltPrompt built;
  take_text(model, images, marked, {}, {}, built);
  built.n_full = built.n_positions();
  if (!fits(built.n_full, limits)) refuse_length(built.n_full, limits);
  return built;
}

// Builds a prompt from token ids, as they are.
BuiltPrompt of_tokens(const ServedModel& model, const GenerationRequest& request,
                      const PromptLimits& limits) {
  check_tokens(model, request.prompt_tokens, "prompt");
  BuiltPrompt built;
  built.tokens = request.prompt_tokens;
  built.n_full = built.tokens.size();
  if (!fits(built.n_full, limits)) refuse_length(built.n_full, limits);
  return built;
}

}  // namespace

std::vector<int32_t> context_of(const ServedModel& model, std::vector<int32_t> prompt,
                                const std::vector<int32_t>& answer) {
  if (begins_with_added_bos(model.weights->tokenizer, prompt)) prompt.erase(prompt.begin());
  std::erase(prompt, context::kPictureToken);  // a later request does not send the pictures again
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  return prompt;
}

size_t BuiltPrompt::n_positions() const noexcept {
  size_t n = tokens.size();
  for (const BuiltImage& image : images) n += image.place.n_rows;
  return n;
}

bool asks_nothing(const GenerationRequest& request) {
  return request.kind == GenerationKind::kChat
             ? request.messages.empty()
             : request.prompt.empty() && request.prompt_tokens.empty() && request.images.empty() &&
                   request.suffix.empty() && !request.raw;
}

void check_capabilities(const ServedModel& model, const GenerationRequest& request) {
  const bool is_chat = request.kind == GenerationKind::kChat;
  if (!model.can("completion")) {
    throw StatusError(
        400, "\"" + request.model + "\" does not support " + (is_chat ? "chat" : "generate"));
  }
  const bool wants_thinking = request.think.enabled.value_or(false);
  if (wants_thinking && !model.can("thinking"))
    throw StatusError(400, "\"" + request.model + "\" does not support thinking");
  std::string lacking;
  const auto want = [&](bool wanted, const char* capability) {
    if (!wanted || model.can(capability)) return;
    if (!lacking.empty()) lacking += "\n";
    lacking += model.full_name + " does not support " + capability;
  };
  const bool has_images =
      !request.images.empty() ||
      std::ranges::any_of(request.messages, [](const Message& m) { return m.n_images() > 0; });
  want(!request.tools.empty() && request.tool_choice.use != ToolUse::kNone, "tools");
  want(!request.suffix.empty(), "insert");
  want(has_images, "vision");
  if (!lacking.empty()) throw StatusError(400, lacking);
  if (!has_images) return;
  if (!model.weights->pictures)
    throw StatusError(400, "images are not supported yet: " + model.name + " runs on text alone");
  if (!request.suffix.empty()) throw StatusError(400, "a prompt with a suffix cannot have images");
}

BuiltPrompt build_prompt(const ServedModel& model, const GenerationRequest& request,
                         const PromptLimits& limits, const PromptCheck& check) {
  const bool is_prompt = request.kind == GenerationKind::kPrompt;
  check_tokens(model, request.context, "context");
  if (is_prompt && !request.prompt_tokens.empty()) return of_tokens(model, request, limits);
  if (is_prompt && request.raw) return of_raw(model, request, limits);
  std::optional<prompt::GoTemplate> own = own_template(request);
  const Conversation conversation = conversation_of(model, request);
  const prompt::GoTemplate* go = own ? &*own : go_template_of(model);
  const bool fills = is_prompt && !request.suffix.empty();
  BuiltPrompt built = fills ? of_text(model, render_fill(request, go), limits, request.context)
                            : build_conversation(model, request, conversation, go, limits, check);
  built.start = start_of(model, conversation, built);
  return built;
}

}  // namespace billow::api
