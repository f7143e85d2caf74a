#include "api/answer.h"

#include <utility>

#include "api/random_id.h"

namespace billow::api {

std::string new_call_id() { return random_id("call_", 8); }

std::vector<Event> joined(const std::vector<Event>& events) {
  std::vector<Event> made;
  for (const Event& event : events) {
    const bool has_text = event.kind == EventKind::kThinking || event.kind == EventKind::kText ||
                          event.kind == EventKind::kCallArguments;
    if (has_text && !made.empty() && made.back().kind == event.kind &&
        made.back().call == event.call)
      made.back().text += event.text;
    else
      made.push_back(event);
  }
  return made;
}

bool is_cut_off(const Ending& ending) noexcept {
  return ending.done_reason == "length" || ending.done_reason == "repetition" ||
         ending.done_reason == "repeats";
}

bool WholeAnswer::empty() const noexcept {
  return text.empty() && thinking.empty() && calls.empty() && logprobs.empty() && notices.empty();
}

WholeAnswer AnswerParts::take() { return std::exchange(whole_, {}); }

void AnswerParts::add(const Delta& delta) {
  for (const Event& event : delta.events) {
    switch (event.kind) {
      case EventKind::kThinking:
        whole_.thinking += event.text;
        break;
      case EventKind::kText:
        whole_.text += event.text;
        break;
      case EventKind::kCallBegin:
        open_ = {event.id, event.text, ""};
        break;
      case EventKind::kCallArguments:
        open_.arguments += event.text;
        break;
      case EventKind::kCallEnd:
        whole_.calls.push_back(std::exchange(open_, {}));
        break;
    }
  }
  whole_.logprobs.insert(whole_.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  whole_.notices.insert(whole_.notices.end(), delta.notices.begin(), delta.notices.end());
}

}  // namespace billow::api
