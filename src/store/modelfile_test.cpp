#include "store/modelfile.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace billow::store {
namespace {

using enum InstructionKind;

std::string refusal(std::string_view text) {
  try {
    parse_modelfile(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

std::string system_of(const std::string& value) {
  return std::string(parse_modelfile("FROM foo\nSYSTEM " + value).last(kSystem));
}

std::string in_utf16(std::string_view ascii, bool big_endian) {
  std::string bytes = big_endian ? "\xFE\xFF" : "\xFF\xFE";
  for (const char c : ascii) {
    if (big_endian) bytes += '\0';
    bytes += c;
    if (!big_endian) bytes += '\0';
  }
  return bytes;
}

TEST(Modelfile, ParsesEveryInstructionInAnyCase) {
  const Modelfile file = parse_modelfile(
      "# a comment\n\n"
      "FROM model1\nadapter a.gguf\r\nDraft d.gguf\n  LICENSE MIT\nLICENSE Apache\n"
      "PARAMETER  stop \t <|x|> \nPARAMETER temperature 0.5\nTEMPLATE {{ .Prompt }}\n"
      "SYSTEM You are # not a comment\n# MESSAGE user no\nRENDERER r\nPARSER p\nREQUIRES 0.14.0\n"
      "MESSAGE user Hello there!\nMESSAGE assistant Hi\nSYSTEM second\nFROM projector.gguf");
  EXPECT_EQ(file.all(kFrom), (std::vector<std::string>{"model1", "projector.gguf"}));
  EXPECT_EQ(file.last(kAdapter), "a.gguf");
  EXPECT_EQ(file.last(kDraft), "d.gguf");
  EXPECT_EQ(file.all(kLicense), (std::vector<std::string>{"MIT", "Apache"}));
  const auto parameters = file.parameters();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0], (std::pair<std::string, std::string>("stop", "<|x|>")));
  EXPECT_EQ(parameters[1].second, "0.5");
  EXPECT_EQ(file.last(kTemplate), "{{ .Prompt }}");
  EXPECT_EQ(file.all(kSystem)[0], "You are # not a comment");
  EXPECT_EQ(file.last(kSystem), "second");
  EXPECT_EQ(file.last(kRenderer), "r");
  EXPECT_EQ(file.last(kParser), "p");
  EXPECT_EQ(file.last(kRequires), "0.14.0");
  EXPECT_EQ(file.instructions[12].key, "user");
  EXPECT_EQ(file.instructions[12].value, "Hello there!");
  EXPECT_EQ(file.instructions[12].line, 16u);
  EXPECT_EQ(file.instructions.size(), 16u);
}

TEST(Modelfile, QuotesEncloseTextVerbatim) {
  EXPECT_EQ(system_of("\"\"\"\nThis is a\n  multiline system.\n\"\"\""),
            "\nThis is a\n  multiline system.\n");
  EXPECT_EQ(system_of("\"\"\"one line\"\"\"\nMESSAGE user x"), "one line");
  EXPECT_EQ(system_of("\"\"\"say \"hi\" \"\" now\n\"\"\"  \n"), "say \"hi\" \"\" now\n");
  EXPECT_EQ(system_of("\"\"\"say \"hi\"\"\"\""), "say \"hi\"");
  EXPECT_EQ(system_of("\"  blanks  \""), "  blanks  ");
  EXPECT_EQ(system_of("\"over\nlines\"\n# x"), "over\nlines");
  EXPECT_EQ(system_of("\"\"\"\"\"\""), "");
  EXPECT_EQ(system_of("\"\""), "");
  EXPECT_EQ(system_of("\"'\""), "'");
  EXPECT_EQ(system_of("it's \"fine\""), "it's \"fine\"");
  EXPECT_EQ(system_of("\"a\" and \"b\""), "a\" and \"b");
  EXPECT_EQ(system_of("\"a\r\nb\"\r\n"), "a\r\nb");
}

TEST(Modelfile, ParsesEveryEncoding) {
  const std::string text = "FROM foo\nSYSTEM x\xC3\xA4\xF0\x9F\x99\x82";
  EXPECT_EQ(parse_modelfile(text).last(kSystem), "x\xC3\xA4\xF0\x9F\x99\x82");
  EXPECT_EQ(parse_modelfile("\xEF\xBB\xBF" + text).last(kSystem), "x\xC3\xA4\xF0\x9F\x99\x82");
  EXPECT_EQ(parse_modelfile("FROM foo\nSYSTEM x\xFFy").last(kSystem), "x\xEF\xBF\xBDy");
  for (const bool big_endian : {false, true}) {
    std::string bytes = in_utf16("FROM foo\nSYSTEM x", big_endian);
    EXPECT_EQ(parse_modelfile(bytes).last(kSystem), "x");
    // U+1F642 as a surrogate pair, then a lone surrogate, then half a code unit.
    bytes += big_endian ? std::string("\xD8\x3D\xDE\x42\xDC\x00\x00", 7)
                        : std::string("\x3D\xD8\x42\xDE\x00\xDC\x00", 7);
    EXPECT_EQ(parse_modelfile(bytes).last(kSystem), "x\xF0\x9F\x99\x82\xEF\xBF\xBD\xEF\xBF\xBD");
  }
}

TEST(Modelfile, ReportsErrors) {
  EXPECT_EQ(refusal(""), "no FROM line");
  EXPECT_EQ(refusal("# FROM x\n"), "no FROM line");
  EXPECT_EQ(refusal("PARAMETER seed 1"), "no FROM line");
  EXPECT_EQ(refusal("FROM \"\""), "no FROM line");
  for (const char* text :
       {"FROM", "FROM ", "FROM foo\nPARAMETER", "FROM foo\nPARAMETER seed",
        "FROM foo\nMESSAGE user", "FROM foo\nSYSTEM \"", "FROM foo\nSYSTEM \"\"\"x",
        "FROM foo\nSYSTEM \"\"\"x\"\"", "FROM foo\nSYSTEM \"x\" y"}) {
    EXPECT_EQ(refusal(text), "unexpected EOF") << text;
  }
  EXPECT_EQ(refusal("FROM foo\n\nCOLOUR red"),
            "(line 3): command must be one of \"from\", \"license\", \"template\", \"system\", "
            "\"adapter\", \"draft\", \"renderer\", \"parser\", \"parameter\", \"message\", or "
            "\"requires\"");
  EXPECT_EQ(refusal("FROM foo\nMESSAGE badguy hi"),
            "message role must be one of \"system\", \"user\", or \"assistant\"");
  EXPECT_EQ(refusal("FROM foo\nREQUIRES soon"), "requires must be a valid semver (e.g. 0.14.0)");
  EXPECT_EQ(refusal("FROM\nfoo"), "(line 1): a value is missing");
}

TEST(Modelfile, Versions) {
  for (const char* text : {"0.14.0", "1", "1.2", "0.0.0", "1.2.3-rc.1", "1.2.3+x", "1.2.3-a+b.c"}) {
    EXPECT_TRUE(is_version(text)) << text;
  }
  for (const char* text : {"", "v1", "1.", "01.2", "1.2.3.4", "1.2.3-", "1.2.3+", "1.2-a", "x",
                           "1.2.3-a..b", "1.2.3 ", "1..2", "1.2.3-a_b"}) {
    EXPECT_FALSE(is_version(text)) << text;
  }
}

TEST(Modelfile, PrintsQuotesOnlyIfNeeded) {
  Modelfile file;
  file.instructions = {{.kind = kFrom, .key = "", .value = "/blobs/sha256-1"},
                       {.kind = kTemplate, .key = "", .value = "{{ .Prompt }}\n"},
                       {.kind = kSystem, .key = "", .value = " say \"hi\""},
                       {.kind = kParameter, .key = "stop", .value = "<|x|>"},
                       {.kind = kParameter, .key = "stop", .value = "\"x"},
                       {.kind = kMessage, .key = "user", .value = "a\nb"},
                       {.kind = kLicense, .key = "", .value = ""}};
  EXPECT_EQ(to_text(file),
            "FROM /blobs/sha256-1\nTEMPLATE \"{{ .Prompt }}\n\"\nSYSTEM \"\"\" say \"hi\"\"\"\"\n"
            "PARAMETER stop <|x|>\nPARAMETER stop \"\"\"\"x\"\"\"\nMESSAGE user \"a\nb\"\n"
            "LICENSE \"\"\n");
}

TEST(Modelfile, ParsesItsOwnOutput) {
  std::mt19937 random(7);
  constexpr std::string_view kPieces[] = {"a", "\"", "\n", " ", "#", "\"\"", "FROM ", "\t", "\r\n"};
  for (int i = 0; i < 5000; ++i) {
    std::string value;
    for (unsigned n = random() % 8; n > 0; --n) value += kPieces[random() % std::size(kPieces)];
    if (value.find("\"\"\"") != std::string::npos) continue;  // not always printable
    Modelfile file;
    file.instructions = {{.kind = kFrom, .key = "", .value = "x"},
                         {.kind = kSystem, .key = "", .value = value},
                         {.kind = kParameter, .key = "stop", .value = value}};
    const Modelfile again = parse_modelfile(to_text(file));
    ASSERT_EQ(again.instructions.size(), 3u) << to_text(file);
    ASSERT_EQ(again.last(kSystem), value) << to_text(file);
    ASSERT_EQ(again.parameters().at(0).second, value) << to_text(file);
  }
}

}  // namespace
}  // namespace billow::store
