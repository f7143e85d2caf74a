// Parses any bytes as the JSON of a request. The JSON is accepted, or rejected with 400 and one
// line of UTF-8. JSON that is parsed, written and parsed again does not change.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "api/fields.h"
#include "api/json_reader.h"
#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/status.h"

namespace {

using namespace billow;

void check_refusal(const http::StatusError& error) {
  const std::string_view text = error.what();
  BILLOW_CHECK(error.status() == 400 && !text.empty());
  BILLOW_CHECK(utf8::is_valid(text) && text.find('\n') == std::string_view::npos);
}

void ask(const std::function<void()>& question) {
  try {
    question();
  } catch (const http::StatusError& error) {
    check_refusal(error);
  }
}

void ask_for_all(const api::Fields& fields) {
  for (const std::string_view name : {"a", "model", "messages"}) {
    ask([&] { BILLOW_CHECK(utf8::is_valid(fields.text(name))); });
    ask([&] { fields.flag(name); });
    ask([&] { fields.integer(name); });
    ask([&] { fields.number(name); });
    ask([&] { fields.texts(name); });
    ask([&] { fields.integers(name); });
    ask([&] { fields.object(name); });
    ask([&] { fields.array(name); });
    ask([&] {
      for (const api::Fields& inner : fields.objects(name)) ask([&] { inner.text(name); });
    });
    ask([&] {
      if (const auto inner = fields.fields(name)) inner->has(name);
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ask([&] {
    const Json value = api::read_json(text);
    const std::string written = api::to_text(value);
    BILLOW_CHECK(utf8::is_valid(written) && written.find('<') == std::string::npos);
    // A negative zero loses its sign if it becomes an integer.
    const std::string again = api::to_text(api::read_json(written));
    BILLOW_CHECK(again.size() <= written.size() && api::to_text(api::read_json(again)) == again);
    BILLOW_CHECK(again == written || written.find("-0") != std::string::npos);
  });
  ask([&] { ask_for_all(api::Fields::parse(text, "FuzzRequest")); });
  return 0;
}
