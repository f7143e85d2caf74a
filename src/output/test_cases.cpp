#include "output/test_cases.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/text.h"

namespace billow::output {
namespace {

constexpr std::string_view kNothing = "∅";
constexpr std::string_view kCut = "‖";
constexpr std::string_view kPlainBegin = "«";
constexpr std::string_view kPlainEnd = "»";
constexpr std::string_view kBetween = " ;; ";

std::vector<std::string> columns_of(std::string_view line) {
  std::vector<std::string> columns;
  for (;;) {
    const size_t end = line.find(kBetween);
    if (end == line.npos || columns.size() == 5) break;
    columns.emplace_back(line.substr(0, end));
    line.remove_prefix(end + kBetween.size());
  }
  columns.emplace_back(line);
  return columns;
}

// Returns the text of a column. Adds the column's cuts and plain ranges to `one`, unless `one`
// is null.
std::string text_of(std::string_view column, SampleCase* one) {
  std::string text;
  if (column == kNothing) return text;
  size_t plain = 0;
  while (!column.empty()) {
    size_t n = 1;
    if (column.starts_with("\\n")) {
      text += '\n';
      n = 2;
    } else if (column.starts_with("\\\\")) {
      text += '\\';
      n = 2;
    } else if (column.starts_with("\\x") && column.size() >= 4) {
      const std::string digits(column.substr(2, 2));
      text += static_cast<char>(std::strtol(digits.c_str(), nullptr, 16));
      n = 4;
    } else if (one && column.starts_with(kCut)) {
      one->cuts.push_back(text.size());
      n = kCut.size();
    } else if (one && column.starts_with(kPlainBegin)) {
      plain = text.size();
      n = kPlainBegin.size();
    } else if (one && column.starts_with(kPlainEnd)) {
      one->plain.push_back({plain, text.size() - plain});
      n = kPlainEnd.size();
    } else {
      text += column.front();
    }
    column.remove_prefix(n);
  }
  return text;
}

size_t end_of_object(std::string_view text) {
  int depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_text && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      is_text = !is_text;
    } else if (!is_text && text[i] == '{') {
      ++depth;
    } else if (!is_text && text[i] == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

void read_calls(std::string_view column, SampleCase& one) {
  if (column.starts_with(kNothing)) {
    one.remark = column.substr(kNothing.size());
    return;
  }
  for (;;) {
    SampleCall call;
    if (column.starts_with('[')) {
      const size_t end = column.find(']');
      call.id = column.substr(1, end - 1);
      column.remove_prefix(end + 1);
    }
    const size_t brace = column.find('{');
    if (brace == column.npos || column.substr(0, brace).find(' ') != column.npos) break;
    call.name = column.substr(0, brace);
    column.remove_prefix(brace);
    const size_t end = end_of_object(column);
    call.arguments = column.substr(0, end);
    column.remove_prefix(end);
    one.calls.push_back(std::move(call));
    constexpr std::string_view kAnd = " + ";
    if (!column.starts_with(kAnd)) break;
    column.remove_prefix(kAnd.size());
  }
  one.remark = column;
}

}  // namespace

std::vector<SampleCase> read_cases(const std::filesystem::path& file) {
  std::vector<SampleCase> cases;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> columns = columns_of(line);
    const bool is_case = columns.size() == 6 && !columns[0].empty() &&
                         columns[0].find_first_not_of("0123456789") == std::string::npos;
    if (!is_case) continue;
    SampleCase one;
    one.id = columns[0];
    const std::string& family = columns[1];
    const size_t end = std::min(family.find_first_of("/ ,("), family.size());
    one.family = family.substr(0, end);
    one.note = family.substr(end);
    if (one.note.size() >= 2 && one.note[0] == '/' &&
        (one.note.size() == 2 || one.note[2] == ' ' || one.note[2] == ',')) {
      one.state = one.note[1];
      one.note = one.note.substr(2);
    }
    one.text = text_of(columns[2], &one);
    one.thinking = text_of(columns[3], nullptr);
    one.content = text_of(columns[4], nullptr);
    read_calls(columns[5], one);
    cases.push_back(std::move(one));
  }
  return cases;
}

Outcome parse_answer(const Format& format, const Start& start, const std::vector<Tool>& tools,
                     const Options& options, std::string_view text, const std::vector<Mark>& marks,
                     const std::vector<size_t>& cuts, FinishReason reason) {
  Parser parser(format, start, tools, options);
  std::vector<Event> events;
  size_t begin = 0;
  const auto add_to = [&](size_t end) {
    std::vector<Mark> inside;
    for (const Mark& mark : marks)
      if (mark.offset >= begin && mark.offset + mark.length <= end)
        inside.push_back({mark.offset - begin, mark.length});
    parser.add(text.substr(begin, end - begin), inside, events);
    begin = end;
  };
  for (const size_t cut : cuts) {
    const bool is_inside = std::ranges::any_of(marks, [&](const Mark& mark) {
      return cut > mark.offset && cut < mark.offset + mark.length;
    });
    if (!is_inside) add_to(cut);
  }
  add_to(text.size());
  parser.finish(reason, events);

  Outcome outcome;
  for (Event& event : events) {
    if (event.kind == EventKind::kThinking) outcome.thinking += event.text;
    if (event.kind == EventKind::kText) outcome.content += event.text;
    if (event.kind == EventKind::kCallBegin) outcome.cut_off.push_back({event.id, event.text, {}});
    if (event.kind == EventKind::kCallArguments) outcome.cut_off.back().arguments += event.text;
    if (event.kind == EventKind::kCallEnd) {
      outcome.calls.push_back(outcome.cut_off.back());
      outcome.cut_off.pop_back();
    }
    const bool joins = !outcome.events.empty() && outcome.events.back().kind == event.kind &&
                       event.kind != EventKind::kCallBegin && event.kind != EventKind::kCallEnd;
    if (joins)
      outcome.events.back().text += event.text;
    else
      outcome.events.push_back(std::move(event));
  }
  return outcome;
}

std::vector<Tool> sample_tools() {
  const auto object = [](const std::string& properties) {
    return R"({"type": "object", "properties": {)" + properties + "}}";
  };
  return {{"weather", object(R"("city": {"type": "string"}, "days": {"type": "integer"})")},
          {"add", object(R"("a": {"type": "integer"}, "b": {"type": "number"})")},
          {"set", object(R"("on": {"type": "boolean"}, "cfg": {"type": "object"},
                            "note": {"type": ["string", "null"]})")},
          {"ping", object("")},
          {"run", object(R"("cmd": {"type": "string"})")},
          {"todo", object(R"("items": {"type": "array", "items": {"type": "string"}})")}};
}

}  // namespace billow::output
