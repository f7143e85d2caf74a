#include "cli/client/show_text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"

namespace billow::cli {
namespace {

TEST(ShowText, ShowsOnlySectionsWithContent) {
  const Json reply = {
      {"details",
       {{"family", "llama"}, {"parameter_size", "1.2B"}, {"quantization_level", "Q8_0"}}},
      {"model_info",
       {{"general.architecture", "llama"},
        {"general.parameter_count", 1'235'814'432},
        {"llama.context_length", 131072},
        {"llama.embedding_length", 2048}}},
      {"capabilities", {"completion", "tools"}}};
  EXPECT_EQ(show_text(reply, false),
            "  Model\n"
            "    architecture        llama     \n"
            "    parameters          1.2B      \n"
            "    context length      131072    \n"
            "    embedding length    2048      \n"
            "    quantization        Q8_0      \n"
            "\n"
            "  Capabilities\n"
            "    completion    \n"
            "    tools         \n"
            "\n");
}

TEST(ShowText, ShowsTheSourceOfAModel) {
  const Json reply = {{"details", {{"family", "llama"}, {"parent_model", "https://h/x.gguf"}}}};
  EXPECT_EQ(show_text(reply, false),
            "  Model\n"
            "    architecture    llama               \n"
            "    made of         https://h/x.gguf    \n"
            "\n");
}

TEST(ShowText, UsesTheDetailsWithoutMetadata) {
  const Json reply = {{"remote_model", "big"},
                      {"remote_host", "https://ollama.com:443"},
                      {"details", {{"family", "bert"}, {"parameter_size", "23M"}}},
                      {"requires", "0.14.0"}};
  EXPECT_EQ(show_text(reply, false),
            "  Model\n"
            "    Remote model    big                       \n"
            "    Remote URL      https://ollama.com:443    \n"
            "    architecture    bert                      \n"
            "    parameters      23M                       \n"
            "    requires        0.14.0                    \n"
            "\n");
}

TEST(ShowText, RepeatsKeysOfParametersAndCutsLongTexts) {
  const Json reply = {
      {"parameters",
       "stop                           \"<|a b|>\"\nstop                           \"x\"\n"},
      {"system", "\n one\n\n\ttwo\nthree\nfour\n"},
      {"license", "MIT\n"},
      {"projector_info",
       {{"general.architecture", "clip"},
        {"general.parameter_count", 567'000'000},
        {"clip.vision.embedding_length", 1280},
        {"clip.vision.projection_dim", 3584.0}}}};
  EXPECT_EQ(show_text(reply, false),
            "  Projector\n"
            "    architecture        clip    \n"
            "    parameters          567M    \n"
            "    embedding length    1280    \n"
            "    dimensions          3584    \n"
            "\n"
            "  Parameters\n"
            "    stop    \"<|a b|>\"    \n"
            "    stop    \"x\"          \n"
            "\n"
            "  System\n"
            "    one    \n"
            "    two    \n"
            "    ...    \n"
            "\n"
            "  License\n"
            "    MIT    \n"
            "\n");
}

TEST(ShowText, WrapsLongLinesAtBlanks) {
  std::string line;
  for (int i = 0; i < 15; ++i) line += "ten-letter ";  // 10 columns and a blank each
  const std::string text = show_text({{"system", line}}, false);
  EXPECT_NE(text.find("    ten-letter ten-letter"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

TEST(ShowText, ListsMetadataSortedAndTensorsWhenVerbose) {
  const Json reply = {{"model_info",
                       {{"z.list", {1, 22, 333, 4444, 5}},
                        {"general.parameter_count", 8'000'000'000},
                        {"a.none", nullptr},
                        {"b.flag", true},
                        {"m.words", {"a", "b"}}}},
                      {"tensors", {{{"name", "w"}, {"type", "F16"}, {"shape", {42, 3117}}}}}};
  const std::string text = show_text(reply, true);
  EXPECT_NE(text.find("  Metadata\n"
                      "    a.none                     <nil>                \n"
                      "    b.flag                     true                 \n"
                      "    general.parameter_count    8e+09                \n"
                      "    m.words                    [a b]                \n"
                      "    z.list                     [1 22 ...+3 more]    \n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  Tensors\n    w    F16    [42 3117]    \n"), std::string::npos) << text;
  EXPECT_EQ(show_text(reply, false).find("Tensors"), std::string::npos);
}

TEST(ShowText, ToleratesFieldsOfWrongTypes) {
  EXPECT_EQ(show_text(Json::array(), true), "");
  EXPECT_EQ(show_text({{"details", 5},
                       {"model_info", "x"},
                       {"capabilities", {1}},
                       {"tensors", {1}},
                       {"system", 7}},
                      false),
            "");
}

}  // namespace
}  // namespace billow::cli
