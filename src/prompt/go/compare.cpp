#include <algorithm>
#include <string>

#include "base/error.h"
#include "prompt/go/functions.h"

namespace billow::prompt::go {
namespace {

// Comparing long texts takes time. One step pays for this many bytes.
constexpr size_t kBytesPerStep = 256;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidInput, what); }

bool is_basic(const Value& value) {
  return value.as_bool() || value.as_integer() || value.as_number() || value.as_text();
}

// Returns whether Go would see nil. An empty list or map counts as Go's nil list or map.
bool is_nil_like(const Value& value) {
  return value.is_nil() || (!is_basic(value) && !value.is_true());
}

[[noreturn]] void refuse_types(const Value& a, const Value& b) {
  refuse("incompatible types for comparison: " + std::string(a.type_name()) + " and " +
         std::string(b.type_name()));
}

void charge(Call& call, const std::string& a, const std::string& b) {
  call.budget.spend_steps(std::min(a.size(), b.size()) / kBytesPerStep);
}

bool equal(Call& call, const Value& a, const Value& b) {
  if (const auto *x = a.as_text(), *y = b.as_text(); x && y) {
    charge(call, *x, *y);
    return *x == *y;
  }
  if (const auto *x = a.as_integer(), *y = b.as_integer(); x && y) return *x == *y;
  if (const auto *x = a.as_number(), *y = b.as_number(); x && y) return *x == *y;
  if (const auto *x = a.as_bool(), *y = b.as_bool(); x && y) return *x == *y;
  if (is_basic(a) || is_basic(b)) {
    if (!a.is_nil() && !b.is_nil()) refuse_types(a, b);
    return false;
  }
  if (is_nil_like(a) || is_nil_like(b)) return is_nil_like(a) == is_nil_like(b);
  refuse("non-comparable type " + std::string(b.type_name()));
}

bool less(Call& call, const Value& a, const Value& b) {
  if (const auto *x = a.as_text(), *y = b.as_text(); x && y) {
    charge(call, *x, *y);
    return *x < *y;
  }
  if (const auto *x = a.as_integer(), *y = b.as_integer(); x && y) return *x < *y;
  if (const auto *x = a.as_number(), *y = b.as_number(); x && y) return *x < *y;
  if (!is_basic(a) || !is_basic(b) || (a.as_bool() && b.as_bool())) {
    refuse("invalid type for comparison");
  }
  refuse_types(a, b);
}

bool less_or_equal(Call& call) {
  const Value& a = call.arguments[0];
  const Value& b = call.arguments[1];
  return less(call, a, b) || equal(call, a, b);
}

}  // namespace

Value call_eq(Call& call) {
  if (call.arguments.size() < 2) refuse("missing argument for comparison");
  const Value& first = call.arguments[0];
  const bool is_found = std::any_of(call.arguments.begin() + 1, call.arguments.end(),
                                    [&](const Value& other) { return equal(call, first, other); });
  return Value::boolean(is_found);
}

Value call_ne(Call& call) {
  return Value::boolean(!equal(call, call.arguments[0], call.arguments[1]));
}

Value call_lt(Call& call) {
  return Value::boolean(less(call, call.arguments[0], call.arguments[1]));
}

Value call_le(Call& call) { return Value::boolean(less_or_equal(call)); }
Value call_gt(Call& call) { return Value::boolean(!less_or_equal(call)); }

Value call_ge(Call& call) {
  return Value::boolean(!less(call, call.arguments[0], call.arguments[1]));
}

}  // namespace billow::prompt::go
