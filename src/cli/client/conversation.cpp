#include "cli/client/conversation.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/answer_printer.h"
#include "cli/client/interrupt_watch.h"
#include "cli/client/loading_line.h"
#include "cli/client/prompt_files.h"
#include "cli/client/show_text.h"
#include "cli/client/status_line.h"
#include "cli/client/tables.h"
#include "cli/client/terminal_modes.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/terminal_line.h"
#include "cli/terminal_text.h"
#include "store/name.h"

namespace billow::cli {
namespace {

size_t terminal_columns() {
  winsize size{};
  if (!is_smart_terminal(STDOUT_FILENO) || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

void print_error(const std::string& text) {
  std::fflush(stdout);
  std::fputs((::isatty(STDERR_FILENO) != 0 ? terminal_text(text) : text).c_str(), stderr);
}

// Ends the program on Ctrl-C during a request that cannot be cancelled.
void leave() {
  TerminalModes::restore();
  ::_exit(exit_status_of(SIGINT));
}

// Ends the client's stream on Ctrl-C. A Ctrl-C that comes after the stream does not end the next
// one.
class CancelWatch {
 public:
  explicit CancelWatch(ApiClient& client)
      : client_(client), watch_(std::in_place, [&client] { client.cancel(); }) {}
  ~CancelWatch() {
    watch_.reset();
    client_.forget_cancel();
  }
  CancelWatch(const CancelWatch&) = delete;
  CancelWatch& operator=(const CancelWatch&) = delete;

 private:
  ApiClient& client_;
  std::optional<InterruptWatch> watch_;
};

// Executes the steps of a Session.
class Conversation {
 public:
  Conversation(ApiClient& client, Session& session, LineEditor& editor)
      : client_(client), session_(session), editor_(editor) {}

  void run();

 private:
  void execute(const Step& step);
  void ask(const std::string& text);
  void show(const std::string& field);
  void load(const std::string& model);
  void save(const std::string& name);
  void list();

  ApiClient& client_;
  Session& session_;
  LineEditor& editor_;
};

void Conversation::run() {
  for (bool continues = false;;) {
    const TypedLine line = editor_.read(continues);
    if (line.kind == TypedLine::Kind::kEnd) return;
    if (line.kind == TypedLine::Kind::kInterrupt) {
      continues = false;
      const bool had_more = session_.drop_unfinished() || !line.text.empty();
      if (!had_more) print_now("Use Ctrl + d or /bye to exit.\n");
      continue;
    }
    const Step step = session_.take(line.text, line.typed);
    if (!step.history.empty()) editor_.add_to_history(step.history);
    if (step.kind == Step::Kind::kEnd) return;
    print_now(step.out);
    print_error(step.err);
    continues = step.kind == Step::Kind::kMore;
    try {
      execute(step);
    } catch (const ApiError& error) {
      print_error("error: " + error.said() + "\n");
    } catch (const std::exception& error) {  // the connection broke; the server may come back
      print_error(std::string("error: ") + error.what() + "\n");
    }
  }
}

void Conversation::execute(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kAsk:
      return ask(step.argument);
    case Step::Kind::kShow:
      return show(step.argument);
    case Step::Kind::kLoad:
      return load(step.argument);
    case Step::Kind::kSave:
      return save(step.argument);
    case Step::Kind::kList:
      return list();
    case Step::Kind::kHistoryOn:
      return editor_.keep_history(true);
    case Step::Kind::kHistoryOff:
      return editor_.keep_history(false);
    case Step::Kind::kPrompt:
    case Step::Kind::kMore:
    case Step::Kind::kEnd:
      return;
  }
}

void Conversation::ask(const std::string& text) {
  ChatMessage message{.role = "user", .content = text};
  if (session_.facts().takes_files()) {
    try {
      PromptFiles files = take_files(text);
      print_error(files.notes);
      message.content = std::move(files.text);
      message.images = std::move(files.contents);
    } catch (const Error& error) {
      return print_error(std::string("Couldn't process file: ") + error.what() + "\n");
    }
  }
  session_.add(std::move(message));
  try {
    ShownAnswer answer =
        show_answer(client_, "/api/chat", session_.chat_request(), session_.settings());
    if (answer.text.empty() && answer.interrupted) return session_.drop_last();
    session_.add({.role = "assistant",
                  .content = std::move(answer.text),
                  .thinking = std::move(answer.thinking)});
  } catch (...) {
    session_.drop_last();
    throw;
  }
}

void Conversation::show(const std::string& field) {
  const InterruptWatch watch(leave);
  const Json reply = client_.post("/api/show", session_.show_request());
  if (field == "info") return print_error(show_text(reply, false));
  if (field == "parameters") return print_text(session_.parameters_text(reply));
  print_text(session_.field_text(field, reply));
}

void Conversation::load(const std::string& model) {
  try {
    const Json reply = [&] {
      const InterruptWatch watch(leave);
      return client_.post("/api/show", {{"model", model}});
    }();
    load_model(client_, model, session_.settings());
    session_.load(model, model_facts(reply));
    print_error(think_warning(model, session_.settings().think, session_.facts()));
    print_error(template_warning(model, session_.facts()));
    print_text(opening_text(reply));
  } catch (const ApiError& error) {
    if (error.status() != 404) throw;
    print_now("Couldn't find model '" + model + "'\n");
  }
}

void Conversation::save(const std::string& name) {
  const CancelWatch watch(client_);
  StatusLine status;
  const bool is_complete =
      client_.stream("/api/create", session_.save_request(name), [&](const Json& object) {
        status.show(text_field(object, "status"));
        return true;
      });
  status.erase();
  if (!is_complete) return;
  const auto made = store::parse_name(name);
  const auto own = store::parse_name(session_.model());
  if (made && own && store::same_model(*made, *own)) session_.saved();
  print_now("Created new model '" + name + "'\n");
}

void Conversation::list() {
  const InterruptWatch watch(leave);
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  print_text(list_table(client_.get("/api/tags"), "", now));
}

}  // namespace

ShownAnswer show_answer(ApiClient& client, const std::string& path, const Json& request,
                        const SessionSettings& settings) {
  AnswerPrinter printer({.n_columns = settings.wraps_words ? terminal_columns() : 0,
                         .colours = shows_colours(STDOUT_FILENO),
                         .is_terminal = ::isatty(STDOUT_FILENO) != 0,
                         .hides_thinking = settings.hides_thinking},
                        print_now);
  Json last = Json::object();
  const CancelWatch watch(client);
  LoadingLine waiting(client.endpoint());
  const auto take = [&](const Json& object) {
    waiting.end();
    printer.take(object);
    if (object.value("done", false)) last = object;
    return true;
  };
  const bool is_complete = [&] {
    try {
      return client.stream(path, request, take);
    } catch (...) {
      waiting.end();
      printer.end();
      const bool has_text = !printer.text().empty() || !printer.thinking().empty();
      if (has_text && ::isatty(STDOUT_FILENO) != 0)
        print_now("\n");  // the error begins on a new line
      throw;
    }
  }();
  waiting.end();
  printer.end();
  print_now("\n\n");
  if (is_complete && last.empty()) {
    throw Error(ErrorCode::kIo, "the server ended the answer before it was complete");
  }
  if (settings.verbose) print_error(metrics_text(last));
  return {printer.text(), printer.thinking(), !is_complete};
}

void load_model(ApiClient& client, const std::string& model, const SessionSettings& settings) {
  Json request = {{"model", model}};
  if (!settings.keep_alive.empty()) request["keep_alive"] = keep_alive_json(settings.keep_alive);
  const CancelWatch watch(client);
  LoadingLine waiting(client.endpoint());
  const bool is_complete =
      client.stream("/api/generate", request, [](const Json&) { return true; });
  waiting.end();
  if (!is_complete) throw Error(ErrorCode::kIo, "interrupted while the model was loaded");
}

std::string opening_text(const Json& show_reply) {
  std::string text;
  if (!show_reply.is_object() || !show_reply.contains("messages")) return text;
  for (const Json& message : show_reply["messages"]) {
    const std::string content = text_field(message, "content");
    const std::string role = text_field(message, "role");
    if (role == "user") text += ">>> " + content + "\n";
    if (role == "assistant") text += content + "\n\n";
  }
  return text;
}

void converse(ApiClient& client, Session& session, LineEditor& editor) {
  Conversation(client, session, editor).run();
}

}  // namespace billow::cli
