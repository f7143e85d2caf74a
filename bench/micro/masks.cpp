// Measures how long a grammar takes to compute the allowed tokens. For each model of the command
// line and some grammars, prints the time of a compilation and of the masks along a text. --write
// FOLDER writes the grammars and texts as files, for comparison/llama_masks.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "constraint/matcher.h"
#include "engine/constraint_vocabulary.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow {
namespace {

using constraint::Grammar;
using constraint::GrammarKind;
using constraint::Matcher;
using Clock = std::chrono::steady_clock;

struct Sample {
  const char* name;
  Grammar grammar;
  std::string text;
};

double micros(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double at(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

constexpr const char* kKinds[] = {
    R"({"type":"string"})",
    R"({"type":"integer"})",
    R"({"type":"number","minimum":0})",
    R"({"type":"boolean"})",
    R"({"type":"array","items":{"type":"string"},"maxItems":5})",
    R"({"enum":["red","green","blue"]})",
    R"({"type":"string","format":"date"})",
    R"({"anyOf":[{"type":"null"},{"type":"string","maxLength":40}]})"};
constexpr const char* kValues[] = {R"("Some text with a few words in it")",
                                   "12345",
                                   "3.25",
                                   "true",
                                   R"(["one", "two words", "three"])",
                                   R"("green")",
                                   R"("2026-12-05")",
                                   R"("a \"quoted\" word")"};

// Returns a schema of n properties and a JSON text that matches the schema.
Sample properties(const char* name, size_t n) {
  Json schema = {{"type", "object"}, {"required", Json::array()}};
  std::string text = "{";
  for (size_t i = 0; i < n; ++i) {
    const std::string key = "property_" + std::to_string(i);
    schema["properties"][key] = Json::parse(kKinds[i % std::size(kKinds)]);
    schema["required"].push_back(key);
    text += (i == 0 ? "\"" : ", \"") + key + "\": " + kValues[i % std::size(kValues)];
  }
  return {name, {GrammarKind::kJsonSchema, schema.dump()}, text + "}"};
}

constexpr const char* kJsonGbnf = R"gbnf(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)gbnf";

std::vector<Sample> samples() {
  const std::string any = properties("", 24).text;
  return {{"any object", {GrammarKind::kJsonObject}, any},
          properties("8 properties", 8),
          properties("100 properties", 100),
          {"JSON in GBNF", {GrammarKind::kGbnf, kJsonGbnf}, any}};
}

void measure(const Sample& sample, const tokenizer::Tokenizer& tokenizer,
             const std::shared_ptr<const constraint::Vocabulary>& vocabulary) {
  constexpr int kCompilations = 15;
  std::vector<double> compile;
  std::unique_ptr<Matcher> matcher;
  for (int i = 0; i < kCompilations; ++i) {
    const auto start = Clock::now();
    matcher = std::make_unique<Matcher>(vocabulary, sample.grammar);
    compile.push_back(micros(Clock::now() - start));
  }
  const std::vector<int32_t> tokens =
      tokenizer.encode(sample.text, {.add_special = false, .parse_special = false});
  std::vector<uint32_t> mask(vocabulary->n_words());
  std::vector<double> masks;
  for (const int32_t token : tokens) {
    if (matcher->n_allowed({&token, 1}) == 0) break;
    const auto start = Clock::now();
    matcher->compute_mask(mask);
    masks.push_back(micros(Clock::now() - start));
    matcher->consume({&token, 1});
  }
  fmt::print("  {:<16} {:>10.2f} {:>8} {:>10.1f} {:>10.1f} {:>10.1f}\n", sample.name,
             at(compile, 0.5) / 1000.0, masks.size(), at(masks, 0.5), at(masks, 0.99),
             at(masks, 1.0));
}

// Writes files whose names are those of the samples, such as "any object".
void write(const std::string& folder) {
  const auto put = [](const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    if (!(file << text)) throw Error(ErrorCode::kIo, "cannot write " + path);
  };
  for (const Sample& sample : samples()) {
    std::string name = sample.name;
    std::ranges::replace(name, ' ', '_');
    const bool is_gbnf = sample.grammar.kind == GrammarKind::kGbnf;
    const bool is_any = sample.grammar.kind == GrammarKind::kJsonObject;
    put(folder + "/" + name + (is_gbnf ? ".gbnf" : ".schema"),
        is_any ? R"({"type":"object"})" : sample.grammar.text);
    put(folder + "/" + name + ".txt", sample.text);
  }
}

void measure(const std::string& path) {
  const tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(gguf::File::open(path));
  const auto start = Clock::now();
  const auto vocabulary = engine::constraint_vocabulary(tokenizer);
  fmt::print("{}: {} tokens, vocabulary made in {:.0f} ms\n", path, tokenizer.n_tokens(),
             micros(Clock::now() - start) / 1000.0);
  fmt::print("  {:<16} {:>10} {:>8} {:>10} {:>10} {:>10}\n", "grammar", "compile ms", "masks",
             "median us", "p99 us", "max us");
  for (const Sample& sample : samples()) measure(sample, tokenizer, vocabulary);
}

}  // namespace
}  // namespace billow

int main(int argc, char** argv) {
  try {
    int first = 1;
    if (argc > 2 && std::string_view(argv[1]) == "--write") {
      billow::write(argv[2]);
      first = 3;
    }
    for (int i = first; i < argc; ++i) billow::measure(argv[i]);
    if (argc == 1) std::fputs("usage: billow_masks [--write FOLDER] [MODEL.gguf...]\n", stderr);
    return argc > 1 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
