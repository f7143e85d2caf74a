// The parts of a format: how thinking is marked, and the forms that calls have. Every text here is
// written as the model writes it, blanks around it aside, which are never part of a marker unless
// said so.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace billow::output {

using Texts = std::vector<std::string>;

struct Thinking {
  Texts open{};               // one of them begins it; none: the model does not think
  Texts close{};              // one of them ends it
  Texts hidden{};             // markers within, not shown
  bool begins_open = false;   // every answer begins with thinking, without a marker
  bool repeats = false;       // it may begin again behind text
  bool resumes = false;       // it goes on without a marker behind the result of a tool
  bool quotes_calls = false;  // calls within are only talk
};

// Markers around the text of an answer, not shown.
struct Wrapping {
  Texts open{};
  Texts close{};
  Texts hidden{};              // anywhere in the text
  bool has_citations = false;  // <co>text</co: 0:[1]>
};

// JSON objects with "name" and "arguments" (or their other names), one or an array of them.
struct JsonCalls {
  Texts open{};          // none: the whole answer must be calls, of declared tools
  Texts close{};         // may be missing
  bool keyed = false;    // {"NAME": {arguments}}
  Texts ignored{};       // names that call nothing
  bool fenced = false;   // the whole answer may stand in a fence
  bool id_last = false;  // the id stands behind the arguments
  bool loose = false;    // any object that names a declared tool, as Ollama's generic parser takes
};

// A name, then the JSON of the arguments.
struct NamedCalls {
  Texts section_open{};  // around all calls; may be missing
  Texts section_close{};
  Texts open{};             // of each call
  Texts prefix{};           // before the name, may be missing
  Texts id_open{};          // between the name and an id
  Texts name_end{};         // may be missing where the arguments begin with a brace
  Texts close{};            // may be missing
  bool name_is_id = false;  // "functions.NAME:0" is the id
  std::string text_name{};  // a name that marks text, not a call
  std::string code_name{};  // a name whose body is code, not JSON
};

enum class ValueRule : uint8_t {
  kLines,    // a line break on each side belongs to the markup
  kRaw,      // as it stands
  kTrimmed,  // blanks on both sides belong to the markup
};

// A tag for each call and for each argument. A tag's head is the text between its opening text and
// `tag_end`: the name itself, or attributes with name="...".
struct TaggedCalls {
  Texts section_open{};  // around calls; may be missing
  Texts section_close{};
  Texts open{};  // of a call, up to its head
  Texts close{};
  Texts key_open{};  // of an argument, up to its head
  Texts key_close{};
  std::string tag_end = ">";
  ValueRule values = ValueRule::kRaw;
  bool has_cdata = false;   // a value may be <![CDATA[value]]>
  bool key_is_tag = false;  // <KEY>value</KEY>, with key_open "<" and key_close "</"
};

// A name, then texts in pairs: a key and a value.
struct PairCalls {
  Texts section_open{};
  Texts section_close{};
  Texts open{};
  Texts close{};
  Texts name_end{};
  Texts key_open{};
  Texts key_close{};
  Texts value_open{};
  Texts value_close{};
};

// Calls as Python writes them: f(a=1, b="x").
struct PythonCalls {
  Texts open{};  // none: the whole answer must be calls, of declared tools
  Texts close{};
  bool in_list = true;     // [f(), g()], else one to a line
  bool is_method = false;  // f.call(a=1)
  bool echoes = false;     // the model may repeat the list as text
};

// call:NAME{key:value}, texts between `quote`.
struct GemmaCalls {
  Texts open{};
  Texts close{};
  std::string quote{};
  Texts ends{};  // what else ends a call
};

// Messages with channels and recipients. The form of a whole answer; no other form beside it.
struct HarmonyCalls {};

using CallForm = std::variant<JsonCalls, NamedCalls, TaggedCalls, PairCalls, PythonCalls,
                              GemmaCalls, HarmonyCalls>;

}  // namespace billow::output
