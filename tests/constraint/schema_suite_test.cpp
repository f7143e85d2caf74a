// Runs the official tests of JSON Schema. A grammar must not accept an instance that its schema
// rejects, and should accept every valid one. A schema may be refused as a whole, with a one-line
// error. The tests are in ~/.cache/billow/json-schema-test-suite, a copy of
// github.com/json-schema-org/JSON-Schema-Test-Suite. Without this folder the test is skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "constraint/matcher.h"
#include "constraint/sample_vocabulary.h"

namespace billow::constraint {
namespace {

std::filesystem::path suite_folder() {
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : "") /
         ".cache/billow/json-schema-test-suite/tests/draft2020-12";
}

const SampleTokens& sample() {
  static const SampleTokens tokens;
  return tokens;
}

bool follows(Matcher matcher, const std::string& text) {
  for (const char byte : text) {
    const auto token = static_cast<int32_t>(static_cast<unsigned char>(byte));
    if (matcher.stopped() || matcher.n_allowed({&token, 1}) == 0) return false;
    matcher.consume({&token, 1});
  }
  return matcher.accepts();
}

struct Count {
  size_t n_schemas = 0;
  size_t n_refused = 0;
  size_t n_accepted = 0;  // instances that are valid and follow the grammar
  size_t n_missed = 0;    // valid, but rejected by the grammar
  size_t n_rejected = 0;  // invalid instances
};

// Schemas whose grammars accept invalid instances, with the reason why this is acceptable.
const std::set<std::string>& known_to_be_wider() {
  static const std::set<std::string> names = {};
  return names;
}

void run(const std::filesystem::path& path, Count& count) {
  static const std::shared_ptr<const Vocabulary> vocabulary = sample().vocabulary();
  std::ifstream file(path);
  for (const Json& group : Json::parse(file)) {
    ++count.n_schemas;
    const std::string name = path.stem().string() + ": " + group["description"].get<std::string>();
    std::optional<Matcher> matcher;
    try {
      matcher.emplace(vocabulary, Grammar{GrammarKind::kJsonSchema, group["schema"].dump()});
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << name;
      EXPECT_EQ(message.find("engine failed"), std::string::npos) << name << ": " << message;
      ++count.n_refused;
      continue;
    }
    for (const Json& test : group["tests"]) {
      const bool is_valid = test["valid"].get<bool>();
      const bool is_in = follows(*matcher, test["data"].dump());
      if (is_valid) ++(is_in ? count.n_accepted : count.n_missed);
      if (!is_valid) ++count.n_rejected;
      EXPECT_FALSE(!is_valid && is_in && !known_to_be_wider().contains(name))
          << name << ": " << test["description"] << "\n"
          << group["schema"].dump() << "\n"
          << test["data"].dump();
    }
  }
}

TEST(SchemaSuite, GrammarsRejectInvalidInstances) {
  if (!std::filesystem::is_directory(suite_folder())) GTEST_SKIP() << "no " << suite_folder();
  std::map<std::string, Count> counts;
  for (const auto& entry : std::filesystem::directory_iterator(suite_folder()))
    if (entry.path().extension() == ".json") run(entry.path(), counts[entry.path().stem()]);
  Count all;
  std::printf("%-24s %8s %8s %8s %8s %8s\n", "keyword", "schemas", "refused", "valid in", "out",
              "invalid");
  for (const auto& [name, count] : counts) {
    std::printf("%-24s %8zu %8zu %8zu %8zu %8zu\n", name.c_str(), count.n_schemas, count.n_refused,
                count.n_accepted, count.n_missed, count.n_rejected);
    all.n_schemas += count.n_schemas;
    all.n_refused += count.n_refused;
    all.n_accepted += count.n_accepted;
    all.n_missed += count.n_missed;
    all.n_rejected += count.n_rejected;
  }
  std::printf("%-24s %8zu %8zu %8zu %8zu %8zu\n", "all", all.n_schemas, all.n_refused,
              all.n_accepted, all.n_missed, all.n_rejected);
  EXPECT_GT(all.n_schemas - all.n_refused, 100u);
  EXPECT_GT(all.n_accepted, 4 * all.n_missed);
}

}  // namespace
}  // namespace billow::constraint
