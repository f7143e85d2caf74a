#include "base/figure.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"

namespace billow {
namespace {

TEST(Histogram, CountsPerBoundAndAboveAll) {
  Histogram histogram({1, 10});
  for (const double value : {0.5, 1.0, 1.5, 10.0, 11.0}) histogram.observe(value);
  EXPECT_EQ(histogram.counts(), (std::vector<uint64_t>{2, 2, 1}));
  EXPECT_EQ(histogram.sum(), 24.0);
  EXPECT_EQ(histogram.n_values(), 5u);
}

TEST(Figures, SurviveRoundTripThroughJson) {
  Histogram histogram({0.5, 2});
  histogram.observe(1);
  const std::vector<Figure> sent = {
      {.name = "a_total", .help = "A.", .kind = Figure::Kind::kCounter, .value = 3},
      {.name = "b", .help = "", .kind = Figure::Kind::kGauge, .value = 0.25},
      {.name = "c", .help = "C.", .kind = Figure::Kind::kHistogram, .histogram = histogram},
      {.name = "d_total",
       .help = "D.",
       .kind = Figure::Kind::kCounter,
       .value = 1,
       .label = "reason",
       .label_value = "\"full\""},
  };
  const std::vector<Figure> read = parse_figures(Json::parse(figures_json(sent).dump()));
  ASSERT_EQ(read.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(read[i].name, sent[i].name);
    EXPECT_EQ(read[i].help, sent[i].help);
    EXPECT_EQ(read[i].kind, sent[i].kind);
    EXPECT_EQ(read[i].value, sent[i].value);
    EXPECT_EQ(read[i].label, sent[i].label);
    EXPECT_EQ(read[i].label_value, sent[i].label_value);
    EXPECT_EQ(read[i].histogram.bounds(), sent[i].histogram.bounds());
    EXPECT_EQ(read[i].histogram.counts(), sent[i].histogram.counts());
    EXPECT_EQ(read[i].histogram.sum(), sent[i].histogram.sum());
  }
}

TEST(Figures, AreValidatedWhenParsed) {
  for (const char* text : {
           R"({})",
           R"([1])",
           R"([{"name":"a b","kind":"gauge","value":1}])",
           R"([{"name":"a","kind":"sum","value":1}])",
           R"([{"name":"a","kind":"gauge"}])",
           R"([{"name":"a","kind":"gauge","value":"1"}])",
           R"([{"name":"a","kind":"histogram","bounds":[1],"counts":[1],"sum":1}])",
           R"([{"name":"a","kind":"histogram","bounds":[2,1],"counts":[1,1,1],"sum":1}])",
           R"([{"name":"a","kind":"histogram","bounds":[],"counts":[-1],"sum":1}])",
           R"([{"name":"a","kind":"histogram","bounds":[],"counts":[1]}])",
           R"([{"name":"a","kind":"gauge","value":1,"label":["x"]}])",
           R"([{"name":"a","kind":"gauge","value":1,"label":["x{","y"]}])",
           R"([{"name":7,"kind":"gauge","value":1}])",
       })
    EXPECT_THROW(parse_figures(Json::parse(text)), Error) << text;
}

}  // namespace
}  // namespace billow
