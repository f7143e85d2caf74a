// An answer on its way through the readers: the tape that they read, the events that they make of
// it, and what they may take back.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "output/event.h"
#include "output/tape.h"

namespace billow::output {

// Somebody who takes text as it comes.
class TextSink {
 public:
  TextSink() = default;
  TextSink(const TextSink&) = delete;
  TextSink& operator=(const TextSink&) = delete;
  virtual ~TextSink() = default;
  virtual void append(std::string_view text) = 0;
};

class StringSink final : public TextSink {
 public:
  void append(std::string_view piece) override { text += piece; }
  std::string text{};
};

// The tools that a request declares.
class Tools {
 public:
  explicit Tools(const std::vector<Tool>& tools);
  ~Tools();
  Tools(const Tools&) = delete;
  Tools& operator=(const Tools&) = delete;

  bool empty() const { return names_.empty(); }
  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view name) const;
  // The types that the argument may have; 0 if they are not known.
  unsigned types_of(std::string_view tool, std::string_view argument) const;

 private:
  std::vector<std::string> names_{};
  std::map<std::string, Json, std::less<>> schemas_;
};

// The events, in order. Those that an attempt has made wait until it is accepted, or until it says
// something that cannot be taken back.
class Output {
 public:
  explicit Output(bool hides_thinking) : hides_thinking_(hides_thinking) {}

  // A byte of thinking or text. Blanks wait for the byte behind them.
  void say(EventKind kind, char byte);
  // Drops the blanks that wait.
  void drop_blanks() { blanks_.clear(); }
  // And those that come before the next byte.
  void trim();
  void begin_call(const std::string& name, const std::string& id);
  void arguments(std::string_view text);
  void end_call();
  // What attempts have made so far stays. False if one of them is firm: then all of it waits.
  bool speak();
  // At the end of the answer.
  void finish();
  // Moves out what is certain, but for characters that are not whole yet.
  void deliver(std::vector<Event>& out, bool is_last);

 private:
  friend class Attempt;
  void add(EventKind kind, std::string_view text);
  size_t count() const { return n_delivered_ + events_.size(); }

  const bool hides_thinking_;
  std::vector<Event> events_{};
  size_t n_delivered_ = 0;
  std::string blanks_{};
  EventKind blanks_kind_ = EventKind::kText;
  bool drops_blanks_ = false;
  std::string hidden_{};  // thinking that is not said
  bool has_text_ = false;
  size_t n_calls_ = 0;
  std::vector<class Attempt*> attempts_{};
};

struct Answer {
  Answer(const std::vector<Tool>& declared, bool takes_whole_calls, bool hides_thinking,
         std::vector<std::string> control_tokens)
      : output(hides_thinking),
        tools(declared),
        whole_calls(takes_whole_calls),
        control(std::move(control_tokens)) {}

  Tape tape{};
  Output output;
  const Tools tools;
  const bool whole_calls;
  const std::vector<std::string> control;  // texts that are control tokens
  size_t n_prefix = 0;                     // the bytes that the prompt has written
  bool must_declare = false;               // only declared tools are called, at present
};

// Reads on in the hope of something, and goes back if there is none. While one is open, the events
// since then wait; a firm one gives them free only when it is accepted, another one as soon as a
// call has begun. Attempts nest.
class Attempt {
 public:
  enum class Kind : uint8_t { kFirm, kLoose };
  Attempt(Answer& answer, Kind kind);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // What was made stays.
  void accept();
  // Back to where it began: nothing was made. REQUIRES: !has_spoken().
  void refuse();
  // Some of it was given free, and cannot be taken back.
  bool has_spoken() const { return has_spoken_; }

 private:
  friend class Output;
  void speak();
  void close();

  Answer& answer_;
  const Kind kind_;
  const size_t position_;
  const size_t n_events_;
  const size_t n_calls_;
  bool has_spoken_ = false;
  bool is_open_ = true;
};

// A call while it is read: its name, its id and its arguments come in any order.
class CallWriter final : public TextSink {
 public:
  // A late call begins only when it is complete, as its id may come last. Nothing is said of calls
  // whose names are `ignored`.
  explicit CallWriter(Answer& answer, bool is_late = false,
                      std::span<const std::string> ignored = {})
      : answer_(answer), ignored_(ignored), is_late_(is_late || answer.whole_calls) {}

  // False if there may be no call of this name.
  bool name(std::string_view text);
  void id(std::string_view text) { id_ = text; }
  // More of the JSON text of the arguments.
  void append(std::string_view text) override;
  // The next argument by its key, for those that come one by one: what follows is its value.
  void key(std::string_view key);
  // Ends what key() has begun.
  void end_keys();
  // The call is complete. False if it has no name, or where calls come whole, if its arguments are
  // no object; then nothing was said.
  bool end();
  // The answer was cut off within the call.
  void cut();

  bool has_name() const { return has_name_; }
  bool has_arguments() const { return has_arguments_; }
  const std::string& name() const { return name_; }
  // Whether it was said already that there is a call, and cannot be taken back.
  bool has_spoken() const { return has_spoken_; }

 private:
  void begin();

  Answer& answer_;
  const std::span<const std::string> ignored_;
  const bool is_late_;
  bool is_ignored_ = false;
  std::string name_{};
  std::string id_{};
  std::string waiting_{};  // of the arguments
  bool has_name_ = false;
  bool has_arguments_ = false;
  bool has_begun_ = false;
  bool has_spoken_ = false;
  bool has_keys_ = false;
};

// What was found where a call was expected.
enum class Found : uint8_t {
  kNothing,  // no call; the tape is where it was
  kCalls,    // calls; the tape is behind the last one
  kBroken,   // a call that was begun and does not go on as one
  kText,     // a marker of text: what follows is text
};

// At the end of an attempt at one call that went wrong.
Found give_up(Answer& answer, CallWriter& call, Attempt& attempt);

// Reads calls of one form.
class CallReader {
 public:
  CallReader() = default;
  CallReader(const CallReader&) = delete;
  CallReader& operator=(const CallReader&) = delete;
  virtual ~CallReader() = default;

  // The texts that begin calls; none: calls are the whole answer.
  virtual const std::vector<std::string>& openers() const = 0;
  // The texts that may follow calls.
  virtual const Literals& closers() const = 0;
  // Where there are no openers: whether calls may begin with this.
  virtual bool may_begin(Unit) const { return false; }
  // Is needed even if no tool is declared.
  virtual bool marks_text() const { return false; }
  // Reads all calls that stand here, behind the opener of this index.
  virtual Task<Found> read(size_t opener) = 0;
};

}  // namespace billow::output
