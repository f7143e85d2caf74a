// The line editor of terminals, by libedit. It reads the terminal itself, so that Ctrl-C ends a
// line rather than the program, and what is pasted is known from what is typed.
#include <histedit.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/client/line_editor.h"

namespace billow::cli {
namespace {

constexpr std::string_view kPlaceholder = "Send a message (/? for help)";
constexpr std::string_view kPasteBegins = "\033[200~";
constexpr std::string_view kPasteEnds = "\033[201~";
constexpr int kSequenceMs = 20;  // within which the bytes of one key arrive

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::wstring wide(std::string_view text) {
  std::wstring out;
  while (!text.empty()) {
    const utf8::CodePoint c = utf8::decode(text);
    out += static_cast<wchar_t>(c.value);
    text.remove_prefix(c.n_bytes);
  }
  return out;
}

std::string narrow(std::wstring_view text) {
  std::string out;
  for (const wchar_t c : text) utf8::append(out, static_cast<char32_t>(c));
  return out;
}

// libedit writes what is typed in the encoding of the locale.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

class TerminalLineEditor : public LineEditor {
 public:
  explicit TerminalLineEditor(const std::string& history_path);
  ~TerminalLineEditor() override;
  TerminalLineEditor(const TerminalLineEditor&) = delete;
  TerminalLineEditor& operator=(const TerminalLineEditor&) = delete;

  TypedLine read(bool continues) override;
  void keep_history(bool keep) override { keeps_history_ = keep; }

 private:
  static TerminalLineEditor& of(EditLine* editor);
  static wchar_t* prompt(EditLine* editor);
  static int next_character(EditLine* editor, wchar_t* character);

  void bind_keys();
  void add_to_history(const std::string& line);
  int next(wchar_t* character);
  std::optional<char> next_byte(int wait_ms);
  bool take_sequence(std::string_view sequence);
  void hide_placeholder();
  TypedLine line_of(const wchar_t* text, int n) const;

  EditLine* editor_ = nullptr;
  HistoryW* recalled_ = nullptr;
  LineHistory history_;
  int signals_ = -1;
  std::deque<char> ahead_;  // bytes that were read and not taken
  std::wstring prompt_;
  std::wstring typed_;  // of the line that Ctrl-C ended
  bool keeps_history_ = true;
  bool shows_placeholder_ = false;
  bool is_first_ = false;  // nothing of the line has been read yet
  bool is_pasting_ = false;
  bool ends_line_pasting_ = false;
  bool after_return_ = false;  // of what is pasted: a "\n" behind it belongs to it
  bool is_interrupted_ = false;
};

TerminalLineEditor::TerminalLineEditor(const std::string& history_path) : history_(history_path) {
  use_utf8();
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  signals_ = ::signalfd(-1, &interrupt, SFD_CLOEXEC | SFD_NONBLOCK);
  editor_ = ::el_init("billow", stdin, stdout, stderr);
  recalled_ = ::history_winit();
  if (signals_ < 0 || editor_ == nullptr || recalled_ == nullptr) {
    throw system_error("cannot edit lines of", "the terminal", errno);
  }
  HistEventW event;
  ::history_w(recalled_, &event, H_SETSIZE, static_cast<int>(LineHistory::kMostLines));
  for (const std::string& line : history_.lines()) {
    ::history_w(recalled_, &event, H_ENTER, wide(line).c_str());
  }
  ::el_wset(editor_, EL_CLIENTDATA, this);
  ::el_wset(editor_, EL_PROMPT, prompt);
  ::el_wset(editor_, EL_GETCFN, next_character);
  ::el_wset(editor_, EL_HIST, ::history_w, recalled_);
  bind_keys();
}

TerminalLineEditor::~TerminalLineEditor() {
  ::history_wend(recalled_);
  ::el_end(editor_);
  ::close(signals_);
}

void TerminalLineEditor::bind_keys() {
  ::el_wset(editor_, EL_EDITOR, L"emacs");
  constexpr const wchar_t* kKeys[][2] = {{L"^W", L"ed-delete-prev-word"},
                                         {L"^U", L"vi-kill-line-prev"},
                                         {L"\\e[3~", L"ed-delete-next-char"},
                                         {L"\\e[H", L"ed-move-to-beg"},
                                         {L"\\e[F", L"ed-move-to-end"}};
  for (const auto& [key, function] : kKeys) {
    ::el_wset(editor_, EL_BIND, key, function, nullptr);
  }
}

TerminalLineEditor& TerminalLineEditor::of(EditLine* editor) {
  void* self = nullptr;
  ::el_wget(editor, EL_CLIENTDATA, &self);
  return *static_cast<TerminalLineEditor*>(self);
}

wchar_t* TerminalLineEditor::prompt(EditLine* editor) { return of(editor).prompt_.data(); }

int TerminalLineEditor::next_character(EditLine* editor, wchar_t* character) {
  return of(editor).next(character);
}

void TerminalLineEditor::add_to_history(const std::string& line) {
  if (!keeps_history_ || line.find_first_not_of(" \t") == std::string::npos) return;
  history_.add(line);
  HistEventW event;
  ::history_w(recalled_, &event, H_ENTER, wide(line).c_str());
}

TypedLine TerminalLineEditor::read(bool continues) {
  sigset_t interrupt;
  sigset_t before;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  prompt_ = continues ? L"... " : L">>> ";
  is_first_ = true;
  shows_placeholder_ = !continues && !is_pasting_;
  is_interrupted_ = ends_line_pasting_ = false;
  ::el_resize(editor_);
  put("\033[?2004h");  // the terminal marks what is pasted
  // Before the prompt is shown: what is typed on seeing it is not for the terminal to interpret,
  // which would lose Ctrl-D.
  ::el_wset(editor_, EL_PREP_TERM, 1);
  int n = 0;
  const wchar_t* text = ::el_wgets(editor_, &n);
  put("\033[?2004l");
  TypedLine line = line_of(text, n);
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) > 0) continue;  // came with the end of the line
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (line.kind == TypedLine::Kind::kLine) add_to_history(line.text);
  return line;
}

TypedLine TerminalLineEditor::line_of(const wchar_t* text, int n) const {
  if (is_interrupted_) return {.kind = TypedLine::Kind::kInterrupt, .text = narrow(typed_)};
  if (text == nullptr || n <= 0) return {.kind = TypedLine::Kind::kEnd};
  std::wstring_view line(text, static_cast<size_t>(n));
  while (!line.empty() && (line.back() == L'\n' || line.back() == L'\r')) line.remove_suffix(1);
  return {.text = narrow(line), .pasted = ends_line_pasting_};
}

void TerminalLineEditor::hide_placeholder() {
  if (is_first_ && shows_placeholder_) put("\033[K");
  is_first_ = false;
}

// Nothing at the end of the input, on Ctrl-C, and when none comes in time.
std::optional<char> TerminalLineEditor::next_byte(int wait_ms) {
  if (!ahead_.empty()) {
    const char byte = ahead_.front();
    ahead_.pop_front();
    return byte;
  }
  pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                     {.fd = signals_, .events = POLLIN, .revents = 0}};
  int n_ready = 0;
  do {
    n_ready = ::poll(polled, 2, wait_ms);
  } while (n_ready < 0 && errno == EINTR);
  if (n_ready <= 0) return std::nullopt;
  signalfd_siginfo info;
  if ((polled[1].revents & POLLIN) != 0 && ::read(signals_, &info, sizeof info) > 0) {
    is_interrupted_ = true;
    return std::nullopt;
  }
  char byte = 0;
  if (::read(STDIN_FILENO, &byte, 1) != 1) return std::nullopt;
  return byte;
}

// Behind the escape that begins it; what turns out to be something else is read again.
bool TerminalLineEditor::take_sequence(std::string_view sequence) {
  std::string taken;
  for (const char expected : sequence.substr(1)) {
    const std::optional<char> byte = next_byte(kSequenceMs);
    if (byte) taken += *byte;
    if (byte != expected) {
      ahead_.insert(ahead_.begin(), taken.begin(), taken.end());
      return false;
    }
  }
  return true;
}

int TerminalLineEditor::next(wchar_t* character) {
  if (is_first_ && shows_placeholder_) {
    put("\033[38;5;245m" + std::string(kPlaceholder) + "\033[0m\033[" +
        std::to_string(kPlaceholder.size()) + "D");
  }
  for (;;) {
    std::string bytes;
    const std::optional<char> first = next_byte(-1);
    hide_placeholder();
    if (!first) {
      const LineInfoW* line = ::el_wline(editor_);
      typed_.assign(line->buffer, line->lastchar);
      return is_interrupted_ ? -1 : 0;
    }
    if (*first == '\033' && take_sequence(is_pasting_ ? kPasteEnds : kPasteBegins)) {
      is_pasting_ = !is_pasting_;
      continue;
    }
    const bool follows_return = std::exchange(after_return_, false);
    if (is_pasting_ && *first == '\n' && follows_return) continue;
    after_return_ = is_pasting_ && *first == '\r';
    if (*first == '\r' || *first == '\n') ends_line_pasting_ = is_pasting_;
    bytes += is_pasting_ && *first == '\t' ? ' ' : *first;  // a tab would be a command
    while (utf8::whole_length(bytes) < bytes.size()) {
      const std::optional<char> more = next_byte(kSequenceMs);
      if (!more) break;
      bytes += *more;
    }
    *character = static_cast<wchar_t>(utf8::decode(bytes).value);
    return 1;
  }
}

}  // namespace

std::unique_ptr<LineEditor> terminal_line_editor(const std::string& history_path) {
  return std::make_unique<TerminalLineEditor>(history_path);
}

}  // namespace billow::cli
