#include "scheduler/keep_alive.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.h"

namespace billow::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

std::string error_of(std::string_view text) {
  try {
    parse_duration(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "no error";
}

TEST(Duration, ParsesWhatGoParses) {
  const std::pair<std::string_view, Duration> cases[] = {
      {"0", Duration(0)},
      {"-0", Duration(0)},
      {"5m", minutes(5)},
      {"+5s", seconds(5)},
      {"-5s", seconds(-5)},
      {"1h30m", minutes(90)},
      {"300ms", milliseconds(300)},
      {"5.0s", seconds(5)},
      {"5.6s", milliseconds(5600)},
      {"5.s", seconds(5)},
      {".5s", milliseconds(500)},
      {"1.004s", milliseconds(1004)},
      {"1.00400s", milliseconds(1004)},
      {"10ns", nanoseconds(10)},
      {"11us", microseconds(11)},
      {"12\u00b5s", microseconds(12)},
      {"12\u03bcs", microseconds(12)},
      {"3h30m", minutes(210)},
      {"10.5s4m", milliseconds(250500)},
      {"-2m3.4s", milliseconds(-123400)},
      {"1h2m3s4ms5us6ns",
       hours(1) + minutes(2) + seconds(3) + milliseconds(4) + microseconds(5) + nanoseconds(6)},
      {"39h9m14.425s", hours(39) + minutes(9) + milliseconds(14425)},
      {"52763797000ns", nanoseconds(52763797000)},
      {"0.3333333333333333333h", minutes(20)},
      {"9007199254740993ns", nanoseconds(9007199254740993)},
      {"9223372036854775807ns", Duration::max()},
      {"9223372036854775.807us", Duration::max()},
      {"-9223372036854775808ns", Duration::min()},
      {"0.100000000000000000000h", minutes(6)},
      {"0.830103483285477580700h", seconds(2988) + nanoseconds(372539827)}};
  for (const auto& [text, duration] : cases) EXPECT_EQ(parse_duration(text), duration) << text;
}

TEST(Duration, FailsWithGoMessages) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "time: invalid duration \"\""},
      {"3", "time: missing unit in duration \"3\""},
      {"10", "time: missing unit in duration \"10\""},
      {"-", "time: invalid duration \"-\""},
      {"s", "time: invalid duration \"s\""},
      {".", "time: invalid duration \".\""},
      {"-.", "time: invalid duration \"-.\""},
      {".s", "time: invalid duration \".s\""},
      {"+.s", "time: invalid duration \"+.s\""},
      {"1d", "time: unknown unit \"d\" in duration \"1d\""},
      {"5 m", "time: unknown unit \" m\" in duration \"5 m\""},
      {"abc", "time: invalid duration \"abc\""},
      {"\x85\x85", "time: invalid duration \"\\x85\\x85\""},
      {"hello \xff world", "time: invalid duration \"hello \\xff world\""},
      {"a\"b\\", "time: invalid duration \"a\\\"b\\\\\""},
      {"9223372036854775810ns", "time: invalid duration \"9223372036854775810ns\""},
      {"9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""},
      {"-9223372036854775809ns", "time: invalid duration \"-9223372036854775809ns\""},
      {"9223372036854775.808us", "time: invalid duration \"9223372036854775.808us\""},
      {"9223372036854ms775us808ns", "time: invalid duration \"9223372036854ms775us808ns\""},
      {"9223372036854775808ns9223372036854775808ns",
       "time: invalid duration \"9223372036854775808ns9223372036854775808ns\""},
      {"3000000h", "time: invalid duration \"3000000h\""}};
  for (const auto& [text, error] : cases) EXPECT_EQ(error_of(text), error);
}

TEST(KeepAlive, NegativeIsForever) {
  EXPECT_EQ(keep_alive_from_text("-1s"), kForever);
  EXPECT_EQ(keep_alive_from_text("0"), Duration::zero());
  EXPECT_EQ(keep_alive_from_text("5m"), minutes(5));
  EXPECT_THROW(keep_alive_from_text("5"), Error);
  EXPECT_EQ(keep_alive_from_seconds(-1), kForever);
  EXPECT_EQ(keep_alive_from_seconds(-0.001), kForever);
  EXPECT_EQ(keep_alive_from_seconds(0), Duration::zero());
  EXPECT_EQ(keep_alive_from_seconds(42), seconds(42));
  EXPECT_EQ(keep_alive_from_seconds(0.25), milliseconds(250));
  EXPECT_EQ(keep_alive_from_seconds(9223372036.0), seconds(9223372036));
  EXPECT_EQ(keep_alive_from_seconds(1e300), kForever);
  EXPECT_EQ(keep_alive_from_seconds(std::numeric_limits<double>::infinity()), kForever);
  EXPECT_EQ(keep_alive_from_seconds(std::numeric_limits<double>::quiet_NaN()), kForever);
}

TEST(Times, LaterSaturatesAtNever) {
  EXPECT_EQ(later(seconds(1), seconds(2)), seconds(3));
  EXPECT_EQ(later(seconds(1), kForever), kNever);
  EXPECT_EQ(later(Time(0), kForever), kNever);
}

}  // namespace
}  // namespace billow::scheduler
