#include "cli/client/answer_printer.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/json.h"
#include "cli/client/format.h"
#include "cli/client/show_text.h"
#include "cli/terminal_text.h"

namespace billow::cli {
namespace {

constexpr const char* kGrey = "\033[38;5;245m";
constexpr const char* kGreyBold = "\033[38;5;245m\033[1m";
constexpr const char* kPlain = "\033[0m";

std::string calls_text(const Json& calls) {
  std::string text;
  for (const Json& call : calls) {
    if (!call.is_object() || !call.contains("function")) continue;
    const Json& function = call["function"];
    const Json arguments = function.value("arguments", Json::object());
    text += fmt::format("  Model called a non-existent function '{}()' with arguments: {}\n\n",
                        text_field(function, "name"), arguments.dump());
  }
  return text;
}

}  // namespace

AnswerPrinter::AnswerPrinter(const AnswerStyle& style, Write write)
    : style_(style), write_(std::move(write)), wrap_(style.n_columns) {}

void AnswerPrinter::take(const Json& object) {
  const bool is_chat = object.contains("message") && object["message"].is_object();
  const Json& part = is_chat ? object["message"] : object;
  think(text_field(part, "thinking"));
  const std::string piece = text_field(part, is_chat ? "content" : "response");
  const auto calls = part.find("tool_calls");
  const bool has_calls = calls != part.end() && calls->is_array() && !calls->empty();
  if (!piece.empty() || has_calls) stop_thinking();
  if (!piece.empty()) {
    text_ += piece;
    show(piece);
  }
  if (has_calls) write_(shown(calls_text(*calls)));
}

void AnswerPrinter::think(const std::string& piece) {
  if (piece.empty()) return;
  thinking_ += piece;
  if (style_.hides_thinking) return;
  if (!is_thinking_) {
    write_(style_.colours ? fmt::format("{}Thinking...\n{}{}", kGreyBold, kPlain, kGrey)
                          : "Thinking...\n");
    is_thinking_ = true;
  }
  show(piece);
}

std::string AnswerPrinter::shown(const std::string& text) const {
  return style_.is_terminal ? terminal_text(text) : text;
}

void AnswerPrinter::show(const std::string& piece) { write_(wrap_.wrapped(shown(piece))); }

void AnswerPrinter::stop_thinking() {
  if (!is_thinking_) return;
  is_thinking_ = false;
  std::string text = thinking_.ends_with('\n') ? "" : "\n";
  text += style_.colours ? fmt::format("{}...done thinking.\n\n{}", kGreyBold, kPlain)
                         : "...done thinking.\n\n";
  write_(text);
  wrap_ = WordWrap(style_.n_columns);
}

void AnswerPrinter::end() {
  if (is_thinking_ && style_.colours) write_(kPlain);
  is_thinking_ = false;
}

std::string metrics_text(const Json& last) {
  std::string text;
  const auto line = [&text](const char* label, const std::string& value) {
    text += fmt::format("{:<22}{}\n", label, value);
  };
  const auto duration = [&](const char* label, const char* field) {
    const uint64_t n = count_field(last, field);
    if (n > 0) line(label, go_duration(std::chrono::nanoseconds(n)));
  };
  const auto evaluation = [&](const std::string& label, const std::string& field) {
    const uint64_t n = count_field(last, (field + "_count").c_str());
    const uint64_t nanoseconds = count_field(last, (field + "_duration").c_str());
    if (n > 0) line((label + " count:").c_str(), fmt::format("{} token(s)", n));
    if (nanoseconds == 0) return;
    line((label + " duration:").c_str(), go_duration(std::chrono::nanoseconds(nanoseconds)));
    const double rate = static_cast<double>(n) / (static_cast<double>(nanoseconds) * 1e-9);
    line((label + " rate:").c_str(), fmt::format("{:.2f} tokens/s", rate));
  };
  duration("total duration:", "total_duration");
  duration("load duration:", "load_duration");
  evaluation("prompt eval", "prompt_eval");
  evaluation("eval", "eval");
  return text;
}

}  // namespace billow::cli
