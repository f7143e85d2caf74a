// An answer while it is parsed: the tape that readers read, the events that they make, and how they
// undo events.
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

// Receives text piece by piece.
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
  // Returns the types that the argument can have; 0 if they are unknown.
  unsigned types_of(std::string_view tool, std::string_view argument) const;

 private:
  std::vector<std::string> names_{};
  std::map<std::string, Json, std::less<>> schemas_;
};

// The events of an answer, in order. Events of an open attempt wait. They become certain when the
// attempt is accepted, or earlier when a loose attempt commits them.
class Output {
 public:
  explicit Output(bool hides_thinking) : hides_thinking_(hides_thinking) {}

  // Adds a byte of thinking or text. Blanks wait until the next byte that is not blank.
  void say(EventKind kind, char byte);
  // Drops the waiting blanks.
  void drop_blanks() { blanks_.clear(); }
  // Drops the waiting blanks, and further blanks before the next byte.
  void trim();
  void begin_call(const std::string& name, const std::string& id);
  void arguments(std::string_view text);
  void end_call();
  // Leaves a call that has begun without its end: the next call has another number.
  void leave_call() { ++n_calls_; }
  // Commits the events of all open attempts. Returns false and commits nothing if one of them is
  // firm.
  bool speak();
  // Ends the answer. Blanks at the end of the text are added, unless there are calls. Hidden
  // thinking becomes text if the answer has no text and no calls.
  void finish();
  // Moves the certain events to `out`, without the first bytes of an incomplete character.
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
  std::string hidden_{};  // thinking that is not reported
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
  size_t n_prefix = 0;                     // bytes at the beginning that the prompt contains
  bool must_declare = false;               // calls now need the name of a declared tool
};

// A tentative read. If the text is not what the reader expects, the reader goes back to where it
// began. While an attempt is open, its events wait. A firm attempt commits its events only when it
// is accepted. A loose attempt commits its events as soon as a call has begun. Attempts nest.
class Attempt {
 public:
  enum class Kind : uint8_t { kFirm, kLoose };
  Attempt(Answer& answer, Kind kind);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Keeps the events and the position.
  void accept();
  // Drops the events and goes back to the beginning. REQUIRES: !has_spoken().
  void refuse();
  // Returns whether events of this attempt are committed, so that they cannot be undone.
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

// Writes the events of one call. Its name, its id and its arguments can come in any order.
class CallWriter final : public TextSink {
 public:
  // The events of a late call begin only after the call is complete, because its id may come last.
  // Calls whose names are in `ignored` make no events.
  explicit CallWriter(Answer& answer, bool is_late = false,
                      std::span<const std::string> ignored = {})
      : answer_(answer), ignored_(ignored), is_late_(is_late || answer.whole_calls) {}

  // Sets the name. Returns false if a call cannot have this name.
  bool name(std::string_view text);
  void id(std::string_view text) { id_ = text; }
  // Adds a part of the JSON text of the arguments.
  void append(std::string_view text) override;
  // Begins an argument, for arguments that come one by one. The text after it is the argument's
  // value.
  void key(std::string_view key);
  // Ends the object that key() has begun.
  void end_keys();
  // Ends a complete call. Returns false if the call has no name. Also returns false if calls come
  // whole and the arguments are not an object. In these cases the call has made no events.
  bool end();
  // Reports the parts of a call in which the answer was cut off.
  void cut();
  // Leaves a call that is broken, with the events that it has made.
  void leave();

  bool has_name() const { return has_name_; }
  bool has_arguments() const { return has_arguments_; }
  const std::string& name() const { return name_; }
  // Returns whether the beginning of the call is committed, so that it cannot be undone.
  bool has_spoken() const { return has_spoken_; }

 private:
  void begin();

  Answer& answer_;
  const std::span<const std::string> ignored_;
  const bool is_late_;
  bool is_ignored_ = false;
  std::string name_{};
  std::string id_{};
  std::string waiting_{};  // arguments that are not reported yet
  bool has_name_ = false;
  bool has_arguments_ = false;
  bool has_begun_ = false;
  bool has_spoken_ = false;
  bool has_keys_ = false;
};

// What a reader has found where it expected a call.
enum class Found : uint8_t {
  kNothing,  // no call; the tape is back at the beginning
  kCalls,    // calls; the tape is after the last one
  kBroken,   // a committed call that does not continue as a call
  kText,     // a marker of text: text follows
};

// Ends a failed attempt to read one call. Returns kBroken if parts of the call are reported, else
// kNothing.
Found give_up(Answer& answer, CallWriter& call, Attempt& attempt);

// Reads calls of one form.
class CallReader {
 public:
  CallReader() = default;
  CallReader(const CallReader&) = delete;
  CallReader& operator=(const CallReader&) = delete;
  virtual ~CallReader() = default;

  // Returns the texts that begin calls. If there are none, calls are the whole answer.
  virtual const std::vector<std::string>& openers() const = 0;
  // Returns the texts that may follow calls.
  virtual const Literals& closers() const = 0;
  // If there are no openers: returns whether calls can begin with this unit.
  virtual bool may_begin(Unit) const { return false; }
  // Returns whether the reader is needed even if the request declares no tools.
  virtual bool marks_text() const { return false; }
  // Reads all calls at the current position, after the opener of this index.
  virtual Task<Found> read(size_t opener) = 0;
};

}  // namespace billow::output
