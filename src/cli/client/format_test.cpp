#include "cli/client/format.h"

#include <gtest/gtest.h>

#include <string>

namespace billow::cli {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(HumanBytes, HasOneDecimalBelowTenUnlessWhole) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1'000), "1 KB");
  EXPECT_EQ(human_bytes(1'500), "1.5 KB");
  EXPECT_EQ(human_bytes(999'999), "999 KB");
  EXPECT_EQ(human_bytes(1'000'000), "1 MB");
  EXPECT_EQ(human_bytes(9'949'000), "9.9 MB");
  EXPECT_EQ(human_bytes(10'000'001), "10 MB");
  EXPECT_EQ(human_bytes(1'321'098'329), "1.3 GB");
  EXPECT_EQ(human_bytes(2'000'000'000), "2 GB");
  EXPECT_EQ(human_bytes(19'999'999'999), "19 GB");
  EXPECT_EQ(human_bytes(3'200'000'000'000), "3.2 TB");
}

TEST(HumanNumber, HasTheDigitsOfItsUnit) {
  EXPECT_EQ(human_number(999), "999");
  EXPECT_EQ(human_number(1'000), "1K");
  EXPECT_EQ(human_number(12'400), "12K");
  EXPECT_EQ(human_number(137'000'000), "137M");
  EXPECT_EQ(human_number(133'700'000), "133.70M");
  EXPECT_EQ(human_number(7'000'000'000), "7B");
  EXPECT_EQ(human_number(1'235'814'432), "1.2B");
}

TEST(ParseTime, ReadsZonesAndFractions) {
  const auto day = std::chrono::sys_days{std::chrono::year(2026) / 1 / 2};
  EXPECT_EQ(parse_time("2026-01-02T03:04:05Z"), WallTime(day) + hours(3) + minutes(4) + seconds(5));
  EXPECT_EQ(parse_time("2026-01-02T03:04:05.1+01:00"),
            WallTime(day) + hours(2) + minutes(4) + seconds(5) + milliseconds(100));
  EXPECT_EQ(parse_time("2026-01-02T03:04:05.123456789-02:30"),
            WallTime(day) + hours(5) + minutes(34) + seconds(5) + milliseconds(123));
  EXPECT_TRUE(parse_time("2318-11-22T00:00:00Z"));
}

TEST(ParseTime, RejectsOtherTexts) {
  for (const char* text :
       {"", "yesterday", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z",
        "2026-02-30T03:04:05Z", "2026-01-02T03:04:05+0100", "2026-01-02T03:04:05.Zx"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

struct Word {
  seconds age;
  const char* text;
};

TEST(RelativeTime, ChangesUnitsAtEachBoundary) {
  const WallTime now{std::chrono::sys_days{std::chrono::year(2026) / 6 / 1}};
  constexpr auto kDay = hours(24);
  for (const Word& word : std::vector<Word>{{seconds(1), "1 second"},
                                            {seconds(2), "2 seconds"},
                                            {seconds(59), "59 seconds"},
                                            {seconds(60), "About a minute"},
                                            {seconds(119), "About a minute"},
                                            {seconds(120), "2 minutes"},
                                            {minutes(59), "59 minutes"},
                                            {minutes(60), "About an hour"},
                                            {minutes(89), "About an hour"},
                                            {minutes(90), "2 hours"},
                                            {hours(47), "47 hours"},
                                            {hours(48), "2 days"},
                                            {13 * kDay, "13 days"},
                                            {14 * kDay, "2 weeks"},
                                            {59 * kDay, "8 weeks"},
                                            {60 * kDay, "2 months"},
                                            {729 * kDay, "24 months"},
                                            {730 * kDay, "2 years"}}) {
    EXPECT_EQ(relative_time(now - word.age, now), std::string(word.text) + " ago");
    EXPECT_EQ(relative_time(now + word.age, now), std::string(word.text) + " from now");
  }
  EXPECT_EQ(relative_time(now - milliseconds(999), now), "Less than a second ago");
  EXPECT_EQ(relative_time(now + milliseconds(1), now), "Less than a second from now");
}

TEST(RelativeTime, HandlesNeverAndForever) {
  const WallTime now{std::chrono::sys_days{std::chrono::year(2026) / 6 / 1}};
  constexpr auto kYear = hours(24 * 365);
  EXPECT_EQ(relative_time(std::nullopt, now), "Never");
  EXPECT_EQ(relative_time(parse_time("0001-01-01T00:00:00Z"), now), "Never");
  EXPECT_EQ(relative_time(now + 20 * kYear, now), "20 years from now");
  EXPECT_EQ(relative_time(now + 21 * kYear, now), "Forever");
  EXPECT_EQ(relative_time(parse_time("2318-03-04T00:00:00Z"), now), "Forever");
}

TEST(GoDuration, PrintsOnlyNeededUnits) {
  EXPECT_EQ(go_duration(nanoseconds(0)), "0s");
  EXPECT_EQ(go_duration(nanoseconds(999)), "999ns");
  EXPECT_EQ(go_duration(nanoseconds(1'500)), "1.5\u00b5s");
  EXPECT_EQ(go_duration(nanoseconds(51'000'000)), "51ms");
  EXPECT_EQ(go_duration(nanoseconds(51'020'300)), "51.0203ms");
  EXPECT_EQ(go_duration(nanoseconds(1'234'567'890)), "1.23456789s");
  EXPECT_EQ(go_duration(seconds(60)), "1m0s");
  EXPECT_EQ(go_duration(milliseconds(90'500)), "1m30.5s");
  EXPECT_EQ(go_duration(hours(1)), "1h0m0s");
  EXPECT_EQ(go_duration(-seconds(1)), "-1s");
  EXPECT_EQ(go_duration(nanoseconds::min()), "-2562047h47m16.854775808s");
}

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("\u00e9"), 1u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
  EXPECT_EQ(display_width("\u6f22\u5b57"), 4u);
}

TEST(DisplayWidth, KnowsMarksOfAllScripts) {
  EXPECT_EQ(display_width("\u0e17\u0e35\u0e48"), 1u);                    // Thai
  EXPECT_EQ(display_width("\u0e01\u0e33"), 2u);                          // Thai, vowel with a cell
  EXPECT_EQ(display_width("\u0939\u093f\u0928\u094d\u0926\u0940"), 5u);  // Hindi
  EXPECT_EQ(display_width("\u05e9\u05c1\u05b8"), 1u);                    // Hebrew
  EXPECT_EQ(display_width("\u0628\u064e"), 1u);                          // Arabic
  EXPECT_EQ(display_width("\u1112\u1161\u11ab"), 2u);                    // Hangul in parts
  EXPECT_EQ(display_width("\u845b\U000E0100"), 2u);                      // a variant of a character
  EXPECT_EQ(display_width("a\u200b\u2060\ufeff"), 1u);
}

TEST(DisplayWidth, KnowsWideCharacters) {
  for (const char* wide :
       {"\u231a", "\u2614", "\u26a1", "\u2705", "\u2728", "\u274c", "\u2b50", "\U0001F600",
        "\U0001F680", "\U0001FAE9", "\u3042", "\uac00", "\uff21", "\U00017000", "\U00020000"})
    EXPECT_EQ(display_width(wide), 2u) << wide;
  for (const char* narrow : {"\u00b7", "\u2014", "\u2764", "\u3248", "\u4dc0", "\u00ad", "\uff61",
                             "\ue000", "\ufffd", "\t", "\n", "\x1b"})
    EXPECT_EQ(display_width(narrow), 1u) << narrow;
}

TEST(Table, PadsEveryColumnIncludingTheLast) {
  EXPECT_EQ(table_text({"NAME", "ID"}, {{"llama3.2:1b", "baf6a787fdff"}, {"m", "-"}}),
            "NAME           ID           \n"
            "llama3.2:1b    baf6a787fdff    \n"
            "m              -               \n");
  EXPECT_EQ(table_text({"NAME", "ID"}, {}), "NAME    ID \n");
  EXPECT_EQ(table_text({}, {{"", "a", "bc"}, {"", "def"}}),
            "    a      bc    \n    def          \n");
}

TEST(Base64, PadsTheLastGroup) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace billow::cli
