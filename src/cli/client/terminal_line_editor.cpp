// The line editor for terminals. KeyDecoder turns input into keys, EditedLine changes the text, and
// LineView shows it. These three classes are pure; this file does the input and output.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/client/command_line.h"
#include "cli/client/edited_line.h"
#include "cli/client/interrupt_watch.h"
#include "cli/client/key_decoder.h"
#include "cli/client/line_editor.h"
#include "cli/client/line_view.h"
#include "cli/client/terminal_modes.h"
#include "cli/console.h"
#include "cli/terminal_line.h"

namespace billow::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = EditedLine::Outcome;

constexpr std::string_view kPlaceholder = "Send a message (/? for help)";
constexpr std::string_view kClearScreen = "\033[H\033[2J";
constexpr auto kPause = std::chrono::seconds(1);  // within a paste, terminals never pause this long

class TerminalLineEditor : public LineEditor, public KeySource {
 public:
  explicit TerminalLineEditor(const std::string& history_path) : history_(history_path) {
    InterruptWatch::use_keys(this);
  }
  ~TerminalLineEditor() override { InterruptWatch::use_keys(nullptr); }
  TerminalLineEditor(const TerminalLineEditor&) = delete;
  TerminalLineEditor& operator=(const TerminalLineEditor&) = delete;

  TypedLine read(bool continues) override;
  void add_to_history(const std::string& entry) override;
  void keep_history(bool keep) override { keeps_history_ = keep; }

  // KeySource: during an answer, keys wait for the next read().
  int descriptor() const noexcept override { return has_ended_ ? -1 : STDIN_FILENO; }
  bool take_interrupt() override;

 private:
  std::optional<TypedLine> next();
  std::optional<TypedLine> handle(Outcome outcome);
  std::optional<TypedLine> handle_signals();
  bool has_input() const;
  void read_input();
  ShownText shown() const;
  TypedLine finished(TypedLine::Kind kind);
  void draw();
  void suspend();

  TerminalModes modes_;
  LineHistory history_;
  KeyDecoder decoder_;
  EditedLine line_;
  LineView view_;
  std::u32string characters_;    // the text of line_, for shown()
  std::deque<KeyEvent> events_;  // not handled yet
  Clock::time_point last_input_ = Clock::now();
  bool has_ended_ = false;  // the input has ended
  bool continues_ = false;
  bool keeps_history_ = true;
};

void TerminalLineEditor::add_to_history(const std::string& entry) {
  if (keeps_history_) history_.add(entry);
}

TypedLine TerminalLineEditor::read(bool continues) {
  continues_ = continues;
  line_.begin(history_.entries());
  modes_.edit(true);
  std::optional<TypedLine> line;
  while (!line) line = next();
  modes_.edit(false);
  return *line;
}

// Handles one key or one signal, or waits for them.
std::optional<TypedLine> TerminalLineEditor::next() {
  if (!events_.empty()) {
    const KeyEvent event = std::move(events_.front());
    events_.pop_front();
    return handle(line_.apply(event));
  }
  if (has_ended_) return finished(TypedLine::Kind::kEnd);
  if (!has_input()) draw();  // a long paste is drawn only once
  pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                     {.fd = modes_.signal_descriptor(), .events = POLLIN, .revents = 0}};
  const int n_ready = ::poll(polled, 2, -1);
  // Signals come first: if poll() reports input, a signal may have come before it.
  if (std::optional<TypedLine> line = handle_signals()) return line;
  if (n_ready > 0 && polled[0].revents != 0) read_input();
  return std::nullopt;
}

bool TerminalLineEditor::has_input() const {
  pollfd polled = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) > 0;
}

void TerminalLineEditor::read_input() {
  char bytes[4096];
  const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) {
    has_ended_ = true;
    return;
  }
  const auto now = Clock::now();
  for (KeyEvent& event :
       decoder_.take({bytes, static_cast<size_t>(n)}, now - last_input_ > kPause)) {
    events_.push_back(std::move(event));
  }
  last_input_ = now;
}

bool TerminalLineEditor::take_interrupt() {
  read_input();
  const auto take = [this](Key key) {
    return std::erase_if(events_, [key](const KeyEvent& event) { return event.key == key; }) > 0;
  };
  if (take(Key::kSuspend)) modes_.suspend();
  return take(Key::kInterrupt);
}

std::optional<TypedLine> TerminalLineEditor::handle(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNone:
      return std::nullopt;
    case Outcome::kLine:
      return finished(TypedLine::Kind::kLine);
    case Outcome::kInterrupt:
      return finished(TypedLine::Kind::kInterrupt);
    case Outcome::kEnd:
      return finished(TypedLine::Kind::kEnd);
    case Outcome::kSuspend:
      suspend();
      return std::nullopt;
    case Outcome::kClearScreen:
      view_.forget();
      print_now(std::string(kClearScreen));
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<TypedLine> TerminalLineEditor::handle_signals() {
  const TerminalModes::Signals signals = modes_.signals();
  if (signals.interrupt) {
    decoder_.interrupt();
    return finished(TypedLine::Kind::kInterrupt);
  }
  if (signals.stop) {
    suspend();
  } else if (signals.continued) {
    view_.forget();
    print_now("\r\n");
  }
  return std::nullopt;  // a resize needs nothing: the next draw() reads the size
}

void TerminalLineEditor::suspend() {
  print_now(view_.leave(TerminalModes::screen_size()));
  modes_.suspend();
}

ShownText TerminalLineEditor::shown() const {
  return {.prompt = line_prompt(continues_),
          .text = characters_,
          .cursor = line_.cursor(),
          .placeholder = continues_ ? "" : kPlaceholder};
}

void TerminalLineEditor::draw() {
  characters_ = line_.characters();
  print_now(view_.draw(shown(), TerminalModes::screen_size()));
}

TypedLine TerminalLineEditor::finished(TypedLine::Kind kind) {
  characters_ = line_.characters();
  const ScreenSize size = TerminalModes::screen_size();
  const bool is_dropped = kind == TypedLine::Kind::kInterrupt && !line_.empty();
  print_now(is_dropped ? view_.leave(size) : view_.finish(shown(), size));
  return {.kind = kind, .text = line_.text(), .typed = line_.typed_ends()};
}

}  // namespace

std::unique_ptr<LineEditor> terminal_line_editor(const std::string& history_path) {
  return std::make_unique<TerminalLineEditor>(history_path);
}

std::unique_ptr<LineEditor> session_line_editor() {
  if (!is_smart_terminal(STDOUT_FILENO)) return std::make_unique<PlainLineEditor>(std::cin, true);
  const char* home = std::getenv("HOME");
  const bool keeps = home != nullptr && *home != '\0' && !client_environment().no_history;
  return terminal_line_editor(keeps ? std::string(home) + "/.ollama/history" : "");
}

}  // namespace billow::cli
