// The parts of a format: the markers of thinking, and the forms of calls. All texts are exactly as
// the model writes them. Blanks around a marker are not part of the marker, unless a comment says
// so.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace billow::output {

using Texts = std::vector<std::string>;

struct Thinking {
  Texts open{};               // one of them begins thinking; none: the model does not think
  Texts close{};              // one of them ends thinking
  Texts hidden{};             // markers within thinking that are not reported
  bool begins_open = false;   // every answer begins with thinking, without a marker
  bool repeats = false;       // thinking may begin again after text
  bool resumes = false;       // after the result of a tool, thinking continues without a marker
  bool quotes_calls = false;  // calls within thinking are text about calls
};

// Markers around the text of an answer. They are not reported.
struct Wrapping {
  Texts open{};
  Texts close{};
  Texts hidden{};              // markers anywhere in the text
  bool has_citations = false;  // <co>text</co: 0:[1]>
};

// JSON objects with "name" and "arguments" (or similar keys): one object, or an array of objects.
struct JsonCalls {
  Texts open{};          // none: the whole answer must be calls of declared tools
  Texts close{};         // may be missing
  bool keyed = false;    // {"NAME": {arguments}}
  Texts ignored{};       // names that are not calls
  bool fenced = false;   // the whole answer may be in a fence
  bool id_last = false;  // the id comes after the arguments
  bool loose = false;    // any object that names a declared tool, as in Ollama's generic parser
  // Calls are the whole rest of the answer: the beginning of a call that is cut off before its name
  // is not text.
  bool alone = false;
};

// A name, then the JSON of the arguments.
struct NamedCalls {
  Texts section_open{};  // around all calls; may be missing
  Texts section_close{};
  Texts open{};             // of each call
  Texts prefix{};           // before the name; may be missing
  Texts id_open{};          // between the name and an id
  Texts name_end{};         // may be missing if the arguments begin with a brace
  Texts close{};            // may be missing
  bool name_is_id = false;  // the text before the arguments is an id: "functions.NAME:0"
  std::string text_name{};  // this name marks text, not a call
  std::string code_name{};  // the body after this name is code, not JSON
};

enum class ValueRule : uint8_t {
  kLines,    // a line break on each side belongs to the markup
  kRaw,      // unchanged
  kTrimmed,  // blanks on both sides belong to the markup
};

// A tag for each call and for each argument. A tag's head is the text between its opening text and
// `tag_end`: the name, or attributes with name="...".
struct TaggedCalls {
  Texts section_open{};  // around all calls; may be missing
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

// A name, then pairs of texts: a key and a value.
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

// Calls in Python's syntax: f(a=1, b="x").
struct PythonCalls {
  Texts open{};  // none: the whole answer must be calls of declared tools
  Texts close{};
  bool in_list = true;     // [f(), g()]; else one call per line
  bool is_method = false;  // f.call(a=1)
  bool echoes = false;     // the model may repeat the list as text
};

// call:NAME{key:value}, with texts between `quote`.
struct GemmaCalls {
  Texts open{};
  Texts close{};
  std::string quote{};
  Texts ends{};  // other texts that end a call
};

// Messages with channels and recipients. This form is for whole answers; a format with it has no
// other form.
struct HarmonyCalls {};

using CallForm = std::variant<JsonCalls, NamedCalls, TaggedCalls, PairCalls, PythonCalls,
                              GemmaCalls, HarmonyCalls>;

}  // namespace billow::output
